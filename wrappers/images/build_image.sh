#!/bin/bash
# shellcheck disable=SC2034,SC2154  # engines.sh reads these, and sets mnrun_engine
# The launcher runs `build_image.sh RUNTIME PODMAN_ROOT WORDS…` on this machine. It runs `podman build WORDS` or `docker
# build WORDS`, with the store that jobs use. The Dockerfile is on standard input.
# engines.sh stands in front of it, as a function `engines` (nodes/kit.py).
set -u
mnrun_runtime=$1 mnrun_podman=$2 mnrun_id=build.$$
shift 2
engines
reason=$(usable) || {
  echo "$reason" >&2
  exit 1
}
# podman's own isolation needs cgroups that a login session may not have (podman-build(1)).
[[ $mnrun_runtime != podman ]] || set -- --isolation=chroot "$@"
trap : TERM # build_group.sh ends the whole group, and this shell cleans up after that
code=0
# podman writes a cache below XDG_DATA_HOME.
MNRUN_JOB_ID=$mnrun_id XDG_DATA_HOME=${mnrun_store:-$HOME/.local/share} "${mnrun_engine[@]}" build "$@" || code=$?
# podman leaves a process behind.
grep -slzxF -- "MNRUN_JOB_ID=$mnrun_id" /proc/[0-9]*/environ | cut -d/ -f3 | xargs -r kill -KILL 2>/dev/null
exit "$code"

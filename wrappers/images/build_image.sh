#!/bin/bash
# shellcheck disable=SC2034,SC2154  # engines.sh reads these, and sets mnrun_engine
# The launcher runs `build_image.sh BUILDER PODMAN_ROOT WORDS…` on this machine. It runs `BUILDER build WORDS` (docker,
# podman or buildah), with the store that jobs use. buildah uses podman's. The Dockerfile is on standard input.
# processes.sh and engines.sh stand in front of it, the latter as a function `engines` (nodes/kit.py).
set -u
builder=$1 mnrun_runtime=${1/#buildah/podman} mnrun_podman=$2 mnrun_id=build.$$
shift 2
engines
test=usable
if [[ $builder == buildah ]]; then # podman may be absent, and buildah lacks some of its options
  set -- --layers "$@" # what podman does by itself, and --force-rm needs (buildah 1.39)
  test=storable mnrun_engine=(buildah --root "$mnrun_store/root" --runroot "$mnrun_store/run" --storage-driver=overlay)
fi
reason=$("$test") || {
  echo "$reason" >&2
  exit 1
}
# podman's own isolation needs cgroups that a login session may not have (podman-build(1)).
[[ $builder == docker ]] || set -- --isolation=chroot "$@"
trap : TERM # build_group.sh ends the whole group, and this shell cleans up after that
code=0
# podman writes a cache below XDG_DATA_HOME.
MNRUN_JOB_ID=$mnrun_id XDG_DATA_HOME=${mnrun_store:-$HOME/.local/share} "${mnrun_engine[@]}" build "$@" || code=$?
end_marked "$mnrun_id"
exit "$code"

#!/bin/bash
# `ch-run.sh ch-run WORDS… IMAGE -- COMMAND…` runs on the node, where clean_env.sh starts it. It becomes ch-run, with
# the variables of the image. ch-run does not set these by itself.
set -euo pipefail
here=$(cd "${0%/*}" && pwd)
source "$here/job.sh"
source "$here/mps.sh"
program=$(command -v ch-run)
shift
flags=("--set-env=TMPDIR=$TMPDIR" "--set-env=HOME=$HOME")
mps
for mnrun_dir in "${mnrun_mps[@]}"; do flags+=("--bind=$mnrun_dir:$mnrun_dir"); done
image=
for word; do
  [[ $word != -- ]] || break
  image=$word
done
if [[ -d $image ]]; then
  [[ ! -e $image/ch/environment ]] || flags+=(--set-env)
else
  # Where ch-run mounts a squashfs file, it leaves a directory behind.
  mkdir -p "$here/image"
  flags+=("--mount=$here/image")
fi
if [[ -f $image ]] && command -v unsquashfs >/dev/null && unsquashfs -cat "$image" ch/environment >"$TMPDIR/ch.environment" 2>/dev/null; then
  flags+=("--set-env=$TMPDIR/ch.environment")
fi
# The host's PATH is wrong for the image. ch-run mounts TMPDIR as /tmp, and sets HOME to /root.
exec env -u TMPDIR PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$program" "${flags[@]}" "$@"

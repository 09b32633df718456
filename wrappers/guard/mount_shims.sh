#!/bin/bash
# `mount_shims.sh DIR` sees to what is executed by its name. Where the job's directory is mounted noexec, that lies in DIR,
# which may be not, and the directory has links; worker.sh says it where nothing can be executed there either.
#
# Makes, in steady/, programs of the names by which a runtime keeps images mounted, which are the node's own
# with the signals blocked that Slurm may send to every process of a step: else one of them ends the mount.
set -euo pipefail
if [[ ! -x bin/ssh ]]; then # as the kernel sees it
  cp -r bin "$1"
  rm -r bin
  ln -s "$1/bin" bin
  [[ -x bin/ssh ]] || exit 0 # the node's own programs are found, then
  mkdir -m 700 "$1/steady"
  ln -s "$1/steady" steady
fi
env=$(command -v env)
"$env" --block-signal=TERM true 2>/dev/null || exit 0 # coreutils before 8.31
[[ -e steady ]] || mkdir steady
for name in squashfuse_ll squashfuse fuse-overlayfs fuse2fs gocryptfs; do
  real=$(command -v "$name") || continue
  printf '#!/bin/sh\nexec %q --block-signal=HUP,INT,TERM,USR1,USR2 %q "$@"\n' "$env" "$real" >"steady/$name"
done
chmod -R 700 steady/

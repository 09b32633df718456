#!/bin/bash
# The guard runs `mount_shims.sh DIR` on the node, in the job's directory.
# Where that directory is mounted noexec, the executable files move to DIR, and links replace them. worker.sh reports a
# DIR that is mounted noexec as well.
# In steady/ it makes shims for the programs by which a runtime keeps images mounted. A shim runs the node's program
# with signals blocked. Slurm may send these to every process of a step, and one of them would end the mount.
set -euo pipefail
if [[ ! -x bin/ssh ]]; then # the kernel says whether it can be executed
  cp -r bin "$1"
  rm -r bin
  ln -s "$1/bin" bin
  [[ -x bin/ssh ]] || exit 0 # without shims the runtime finds the node's own programs
  mkdir -m 700 "$1/steady"
  ln -s "$1/steady" steady
fi
env=$(command -v env)
"$env" --block-signal=TERM true 2>/dev/null || exit 0 # coreutils before 8.31 has no `env --block-signal`
[[ -e steady ]] || mkdir steady
for name in squashfuse_ll squashfuse fuse-overlayfs fuse2fs gocryptfs; do
  real=$(command -v "$name") || continue
  printf '#!/bin/sh\nexec %q --block-signal=HUP,INT,TERM,USR1,USR2 %q "$@"\n' "$env" "$real" >"steady/$name"
done
chmod -R 700 steady/

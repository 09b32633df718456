#!/bin/bash
# Makes, in steady/, programs of the names by which a runtime keeps images mounted, which are the node's own
# with the signals blocked that Slurm may send to every process of a step: else one of them ends the mount.
set -euo pipefail
env=$(command -v env)
"$env" --block-signal=TERM true 2>/dev/null || exit 0 # coreutils before 8.31
mkdir steady
for name in squashfuse_ll squashfuse fuse-overlayfs fuse2fs gocryptfs; do
  real=$(command -v "$name") || continue
  printf '#!/bin/sh\nexec %q --block-signal=HUP,INT,TERM,USR1,USR2 %q "$@"\n' "$env" "$real" >"steady/$name"
done
chmod -R 700 steady

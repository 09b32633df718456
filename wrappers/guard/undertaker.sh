#!/bin/bash
# `undertaker.sh DIR` does the guard's last work where somebody has killed the guard: it notices by a pipe that the
# guard alone writes. A guard that has done it all writes `done`, and then there is nothing more to do here.
# It begins in the job's directory, and never leaves it.
set -euo pipefail +o posix
mnrun_here=$1
source ./sweep.sh
trap '' HUP INT TERM USR1 USR2
began $$ && echo "$$ $REPLY" >undertaker
word=''
while read -r word && [[ $word != 'done' ]]; do :; done
for place in "$mnrun_here".script.*; do # of a batch script that was killed as well
  if ! { read -r pid start _ <"$place/pid"; } 2>/dev/null || ! lives "$pid" "$start"; then wipe_beside "$place"; fi
done
[[ $word != 'done' ]] || exit 0
rm -f key hostkey
sweep_all >/dev/null
wipe

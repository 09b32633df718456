#!/bin/bash
# `undertaker.sh DIR` does the guard's last work where somebody has killed the guard: it notices by a pipe that the
# guard alone writes. A guard that has done it all writes `done`, and then there is nothing more to do here.
# It begins in the job's directory, and never leaves it.
set -euo pipefail +o posix
mnrun_here=$1
source ./sweep.sh
trap '' HUP INT TERM USR1 USR2
began $$ && echo "$$ $REPLY" >undertaker
while read -r word; do [[ $word != 'done' ]] || exit 0; done
for place in "$mnrun_here".script.*; do wipe_beside "$place"; done # of a batch script that was killed as well
rm -f key hostkey
sweep_all >/dev/null
wipe

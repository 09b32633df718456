#!/bin/bash
# boot.sh starts `undertaker.sh DIR` on the node, outside the step and in the job's directory. It stays there.
# It does the guard's last work if a pipe that only the guard writes ends without `done`: the guard was killed.
set -euo pipefail +o posix
mnrun_here=$1
source ./processes.sh
trap '' HUP INT TERM USR1 USR2
began $$ && echo "$$ $REPLY" >undertaker
word=''
while read -r word && [[ $word != 'done' ]]; do :; done
[[ $word != 'done' ]] || exit 0
source ./sweep.sh
forget_keys
sweep_all
wipe

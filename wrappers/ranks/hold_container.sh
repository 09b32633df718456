#!/bin/sh
# into.sh runs this as the first process of the container that a node's ranks share.
# It only lives until its standard input ends, which the node's guard holds. So the container survives any rank.
set -eu
. ./job.sh
. ./pid.sh
trap '' HUP INT TERM USR1 USR2 # a signal to the step is for the program
mnrun_self
echo "held $mnrun_process" 1<>up
if [ -z "$mnrun_connect" ]; then echo ready 1<>up; fi # otherwise worker.sh, which lets the host's mpirun in, says ready
read -r _ || :

#!/bin/sh
# `hold.sh DIR`: the first process of the container that a node's ranks share. It does nothing but live, until
# its standard input ends, which the node's guard holds; so no rank's end is another's.
set -eu
cd "$1"
. ./job.sh
trap '' HUP INT TERM USR1 USR2 # what is sent to the step is for the program
: >held
if [ -z "$mnrun_connect" ]; then echo ready 1<>up; fi # else what lets the host's mpirun in says it
read -r _ || :

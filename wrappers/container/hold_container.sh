#!/bin/sh
# Comes by into.sh. The first process of the container that a node's ranks share. It does nothing but live, until
# its standard input ends, which the node's guard holds; so no rank's end is another's.
set -eu
. ./job.sh
trap '' HUP INT TERM USR1 USR2 # what is sent to the step is for the program
: >held
if [ -z "$mnrun_connect" ]; then echo ready 1<>up; fi # else what lets the host's mpirun in says it
read -r _ || :

#!/bin/sh
# into.sh runs this as the first process of the container that a node's ranks share. It lives until its standard input
# ends, which the node's guard holds. So the container survives any rank.
set -eu
. ./job.sh
. ./pid.sh
# The init of a shared Apptainer container hands a signal on to a process group, and ends where it finds none.
case $mnrun_warnings in
  *USR*)
    if [ $# = 0 ] && command -v setsid >/dev/null; then
      # shellcheck disable=SC2154  # into.sh's
      exec setsid sh -c "$mnrun_into" "$mnrun_here" hold_container.sh leads
    fi ;;
esac
trap '' HUP INT TERM USR1 USR2 # a signal to the step is for the program
mnrun_self
echo "held $mnrun_process" 1<>up
if [ -z "$mnrun_connect" ]; then echo ready 1<>up; fi # otherwise worker.sh, which lets the host's mpirun in, says ready
read -r _ || :

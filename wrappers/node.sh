#!/bin/sh
# `node.sh DIR`: the first process inside a serving container. It keeps the container's own
# environment for whoever comes later, starts what the connect needs, and ends with its
# standard input, which the node's guard holds.
set -eu
trap '' HUP INT TERM USR1 USR2 # what is sent to the step is for the program
cd "$1"
. ./job.sh
PATH=$1/bin:$PATH
export PATH
export -p >session.env
case $job_connect in
  ssh) sh ./sshd.sh & ;;
esac
exec cat >/dev/null

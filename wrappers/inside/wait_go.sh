#!/bin/sh
# `WORDS…`, by into.sh: waits until every node is ready, then runs WORDS (mpirun, or the user's script)
# in the environment of this launch, where a plain mpirun finds its hosts, slots and agent.
set -eu
. ./job.sh
if [ -z "$mnrun_inside" ]; then . ./home.sh; fi # the host's Open MPI ends without
trap '' TERM USR1 USR2 # which are for what begins here
read -r mnrun_word <go || exit 1 # the guard holds it open; its end is the job's
if [ "$mnrun_word" != go ]; then exit 0; fi # some node is not ready: the launcher says which
trap - TERM USR1 USR2
. ./launch.env
umask "$mnrun_umask"
cd "$mnrun_chdir"
if [ "$1" = mpirun ] && [ -n "$mnrun_inside" ] && [ ! -x "$mnrun_here/bin/mpirun" ]; then # on PATH, but mounted noexec
  shift
  set -- sh "$mnrun_here/bin/mpirun" "$@"
fi
exec "$@"

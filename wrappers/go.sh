#!/bin/sh
# `go.sh WORDS…` waits until every node is ready, then runs WORDS (mpirun, or the user's script)
# in the environment of this launch, where a plain mpirun finds its hosts, slots and agent.
set -eu
here=$(cd "${0%/*}" && pwd)
. "$here/job.sh"
read -r word <"$here/go" || exit 1 # the guard holds it open; its end is the job's
if [ "$word" != go ]; then exit 0; fi # some node is not ready: the launcher says which
. "$here/launch.env"
umask "$job_umask"
cd "$job_chdir"
exec "$@"

# shellcheck shell=bash
# First words on a node under pdsh, as `bash -p -c LEASE DIRECTORY WORDS…` (schedulers/hosts/pdsh.py). pdsh closes the
# standard input of what it starts. So the lease is a FIFO in DIRECTORY, beside the job's own; it is opened for reading
# and writing, and so has no end (fifo(7)). `pour` and `say` are what others write to it by. They enter DIRECTORY as
# all do who come by its name (into.sh), which wants the file `own`. WORDS begin the guard (boot.sh).
umask 077
mkdir "$0" || {
  echo "fail $MNRUN_NODE cannot make $0 on this node"
  exit 1
}
# shellcheck disable=SC2016  # the word of `say` is there when somebody says it
cd "$0" && mkfifo pipe && exec <>pipe &&
  echo 'exec cat >pipe' >pour && echo 'echo "$1" 1<>pipe' >say && echo "$0" >own &&
  cd / && exec env MNRUN_WAIT=60 "$@"

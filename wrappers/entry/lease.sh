# shellcheck shell=bash
# The launcher starts this text on a node under pdsh, as `bash --norc -p -c LEASE DIRECTORY WORDS…`
# (schedulers/hosts/pdsh.py). WORDS start the guard (boot.sh).
# pdsh closes the standard input of its commands. So the lease is a FIFO in DIRECTORY, beside the job's directory.
# The text opens the FIFO for reading and writing, so it has no end of file (fifo(7)).
# Other processes write to the FIFO by `pour` and `say`. They enter DIRECTORY by into.sh, which needs the file `own`.
unset TMOUT # bash would end each `read` after so many seconds
umask 077
mkdir "$0" || {
  echo "fail $MNRUN_NODE cannot make $0 on this node"
  exit 1
}
# shellcheck disable=SC2016  # the word of `say` is there when somebody says it
cd "$0" && mkfifo pipe && exec <>pipe &&
  echo 'exec cat >pipe' >pour && echo 'echo "$1" 1<>pipe' >say && echo "$0" >own &&
  cd / && exec env MNRUN_WAIT=60 "$@"
echo "fail $MNRUN_NODE cannot write to $0 on this node: ${0%/*} is full"
: >"$0/own" && sleep 3 # a process that waits for this file ends where it is empty (await_lease.sh, into.sh)
rm -rf -- "$0"
exit 1

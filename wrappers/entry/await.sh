# shellcheck shell=bash disable=SC1090,SC2034,SC2094  # SCRIPT, its names, and a pipe that is opened twice
# The launcher starts what waits for a guard with this text, as `bash --norc -p -c AWAIT DIR SCRIPT WORDS…`: the head,
# whose SCRIPT is head.sh, on the first node, and each rank that the scheduler starts, whose SCRIPT is clean_env.sh.
# It waits for DIR, the job's directory, which this node's guard makes, and enters it as into.sh does.
# Then it waits for the file `open`. The guard makes it once it has found all it needs.
# The head's container starts now. The process that makes the file `gate` goes first: the head to start, or the guard to
# end without a head. A rank waits for go, which is a line in the pipe `go` for each. The end of this pipe is the end of
# the guard.
# While this process waits, a signal is meant for the program, so it is only counted. Without a guard, a TERM or four
# USR1 or USR2 end it. srun forwards no TERM, so the launcher sends USR1 again and again. A scheduler or a user may send
# one or two of their own.
# The end of its parent ends it too, because a connection that is cut sends no signal.
# The guard reports a directory of another user. So this process exits only after the guard has had time for that.
trap 'mnrun_told=$((mnrun_told + 1))' USR1 USR2
trap mnrun_told=4 TERM
mnrun_told=0 mnrun_seen=0 mnrun_idle='' mnrun_back=$PWD
unset TMOUT GREP_OPTIONS # as in boot.sh
[ -z "${POSIXLY_CORRECT+set}" ] || mnrun_posix=$POSIXLY_CORRECT # `set +o posix` unsets it, and it is for the program
set +o posix # as in fetch.sh
pause() { # Wait for some milliseconds, in a read from a pipe that nothing writes to: the guard's `idle`, or one of its own
  # A program that sleeps would cost a process each time.
  if [ -p idle ]; then
    read -rt 0.005 <>idle
  else
    [ -n "$mnrun_idle" ] || exec {mnrun_idle}<> <(:)
    read -rt 0.005 <&"$mnrun_idle"
  fi
} 2>/dev/null
orphaned() { read -r _ _ _ mnrun_parent _ <"/proc/$$/stat" && [ "$mnrun_parent" != "$PPID" ]; }
until cd -- "$0" 2>/dev/null && [ -O . ] && [ .. -ef "${0%/*}" ] && { read -r mnrun_name _ <own; } 2>/dev/null && [ "$mnrun_name" = "$0" ]; do
  if [ "$mnrun_told" -ge 4 ] || orphaned; then exit 0; fi
  cd /
  if [ -L "$0" ] || { [ -e "$0" ] && [ ! -O "$0" ]; }; then
    [ $((mnrun_seen += 1)) -lt 500 ] || { echo "mnrun: $0 belongs to another user" >&2 && exit 121; }
  fi
  pause
done
set -C # a redirection makes a file, and takes none that is there
until [ -e open ] && { [ "$1" != head.sh ] || { : >gate; } 2>/dev/null; }; do
  if [ ! -e own ] || orphaned; then exit 0; fi # the guard has ended and removed its files
  pause
done
[ -z "$mnrun_idle" ] || exec {mnrun_idle}<&-
[ -z "${mnrun_posix+set}" ] || export POSIXLY_CORRECT="$mnrun_posix"
if [ "$1" = head.sh ]; then MNRUN_JOB_ID=${0##*/mnrun.} exec bash -p ./head.sh "${@:2}"; fi
set +C
# The open for both never blocks, and neither does one for reading while the pipe is open for both (fifo(7)).
{ [ -p go ] && exec {mnrun_idle}<>go {mnrun_go}<go {mnrun_idle}<&- && read -r _ <&"$mnrun_go"; } 2>/dev/null || exit 0
exec {mnrun_go}<&-
mnrun_here=$0 mnrun_script=$1
shift
. "./$mnrun_script"

# shellcheck shell=bash
# The launcher starts the head with this text on the first node, as `bash --norc -p -c AWAIT DIR WORDS…`. It becomes head.sh.
# It waits for DIR, the job's directory, which this node's guard makes, and enters it as into.sh does.
# Then it waits for the file `open`. The guard makes it once it has found all it needs. Now the process that makes the
# file `gate` goes first: the head to start, or the guard to end without a head.
# While this process waits, a signal is meant for the program, so it is only counted. Without a guard, a TERM or four
# USR1 or USR2 end it. srun forwards no TERM, so the launcher sends USR1 again and again. A scheduler or a user may send
# one or two of their own.
# The end of its parent ends it too, because a connection that is cut sends no signal.
# The guard reports a directory of another user. So the head exits only after the guard has had time for that.
trap 'mnrun_told=$((mnrun_told + 1))' USR1 USR2
trap mnrun_told=4 TERM
mnrun_told=0 mnrun_seen=0
unset TMOUT # bash would end each `read` after so many seconds
pause() { # Wait for some milliseconds, if possible without a process: nothing writes to the guard's pipe `idle`
  # A signal to the step ends the sleep, too, and bash would report that.
  { if [ -p idle ]; then read -rt 0.005 <>idle; else sleep 0.02; fi; } 2>/dev/null
}
orphaned() { read -r _ _ _ mnrun_parent _ <"/proc/$$/stat" && [ "$mnrun_parent" != "$PPID" ]; }
until cd -- "$0" 2>/dev/null && [ -O . ] && [ .. -ef "${0%/*}" ] && { read -r mnrun_name _ <own; } 2>/dev/null && [ "$mnrun_name" = "$0" ]; do
  if [ "$mnrun_told" -ge 4 ] || orphaned; then exit 0; fi
  cd /
  if [ -L "$0" ] || { [ -e "$0" ] && [ ! -O "$0" ]; }; then
    [ $((mnrun_seen += 1)) -lt 150 ] || { echo "mnrun: $0 belongs to another user" >&2 && exit 121; }
  fi
  pause
done
set -C # a redirection makes a file, and takes none that is there
until [ -e open ] && { : >gate; } 2>/dev/null; do
  if [ ! -e own ] || orphaned; then exit 0; fi # the guard has ended and removed its files
  pause
done
MNRUN_JOB_ID=${0##*/mnrun.} exec bash -p ./head.sh "$@"

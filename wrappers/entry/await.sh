# shellcheck shell=bash
# The head's first words: `bash -p -c AWAIT DIR WORDS…`. Waits for DIR, the job's directory, which the guard of this
# node makes, and enters it as into.sh does. There it waits for the pipe `gate`, which the guard makes once it has
# found everything there. Whoever renames that has it: the head to begin, the guard to end without one.
# From then on the head carries the job's mark. No signal is for it before that; a TERM ends it where there is no guard,
# and so does the end of who has begun it, since a connection that is cut sends none.
# What is somebody else's the guard finds as well, and tells: so the head leaves only after it.
trap : USR1 USR2
trap mnrun_told=1 TERM
mnrun_told='' mnrun_seen=0
orphaned() { read -r _ _ _ mnrun_parent _ <"/proc/$$/stat" && [ "$mnrun_parent" != "$PPID" ]; }
until cd -- "$0" 2>/dev/null && [ -O . ] && [ .. -ef "${0%/*}" ] && { read -r mnrun_name _ <own; } 2>/dev/null && [ "$mnrun_name" = "$0" ]; do
  if [ -n "$mnrun_told" ] || orphaned; then exit 0; fi
  cd /
  if [ -L "$0" ] || { [ -e "$0" ] && [ ! -O "$0" ]; }; then
    [ $((mnrun_seen += 1)) -lt 150 ] || { echo "mnrun: $0 is somebody else's" >&2 && exit 121; }
  fi
  sleep 0.02
done
until [ -p gate ] && mv gate go 2>/dev/null; do
  if [ ! -e own ] || orphaned; then exit 0; fi # the guard has ended, and has taken its files away
  sleep 0.02
done
MNRUN_JOB_ID=${0##*/mnrun.} exec bash -p ./head.sh "$@"

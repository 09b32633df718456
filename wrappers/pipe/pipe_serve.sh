#!/bin/sh
# `pipe_serve.sh BOX NODE ID 'INPUT LINES' [WORDS…]` runs a command that NODE, another node of the job, has asked for
# (pipe_ssh.sh), in the directory BOX that worker.sh has made for it, and tells how it goes. WORDS stand in front of the command.
set -u
here=$(cd "${0%/*}" && pwd)
. "$here/pipe_frames.sh"
box=$1 way="answer $self $2 $3" input=${4% *} lines=${4#* }
shift 4
cd "$box" 2>/dev/null || {
  say "no the command was lost on the way"
  exit 1
}

if [ "$input" = 0 ]; then input=''; fi
if [ "$(wc -l <words)" -ne "$lines" ]; then
  say "no a part of the command was lost on the way"
  discard "$box"
  exit 1
fi

trap '' HUP INT TERM USR1 USR2 # Slurm sends a step's signal to all its processes, and it is meant for the program
for stream in out err; do
  (
    exec 3<"$stream" 4<>"room.$stream"
    pump "$stream" "$WINDOW" "$stream"
  ) &
  eval "$stream=\$!"
done
feeder=''
if [ -n "$input" ]; then
  (
    exec 3<>in 4>stdin # opening `stdin` waits until the command has opened it to read (fifo(7))
    say "got $WINDOW"
    while read -r kind data <&3; do
      case $kind in
        in)
          if [ "$data" = gap ]; then
            say "no a part of its input was lost on the way"
            exec cat <&3 >/dev/null # pipe_ssh.sh ends the command. Until then its input must not seem to end
          fi
          base64 -d <"in.$data" >&4 || break # the command has closed its input
          rm -f "in.$data"
          say 'got 1'
          ;;
        *) break ;; # eof
      esac
    done
  ) &
  feeder=$!
  source=stdin
else
  source=/dev/null
fi
exec 8>out 9>err # opened here, and closed below: the pumps then see an end also where the command cannot start
(
  trap - HUP INT TERM USR1 USR2
  SSH_ORIGINAL_COMMAND=$(tr -d '\n' <words | base64 -d)
  export SSH_ORIGINAL_COMMAND
  # It writes its pid, by which signals reach it from then on. A signal that came before has left out.stop instead.
  # shellcheck disable=SC2016  # the shell that is started expands these words
  exec "$@" sh -c 'echo $$ >pid; [ ! -e out.stop ] || exit 129; exec sh "$0"' "$here/session.sh" \
    <"$source" >&8 2>&9 8>&- 9>&-
) &
command=$!
exec 8>&- 9>&-
wait "$command"
code=$?
# shellcheck disable=SC2154  # the eval above has set them
wait "$out" "$err" # until all that it said is on its way
if [ -n "$feeder" ]; then kill -KILL "$feeder" 2>/dev/null; fi
# shellcheck disable=SC2046  # two numbers, each a word
say "code $code" $(cat out.lines err.lines 2>/dev/null)
cd /
discard "$box"

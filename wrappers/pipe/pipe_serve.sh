#!/bin/sh
# worker.sh starts `pipe_serve.sh BOX NODE ID 'INPUT LINES' [WORDS…]` in the container. It runs the command ID that
# another node NODE has sent (pipe_ssh.sh), and reports its output and exit code.
# BOX is the command's directory, which worker.sh has made. WORDS stand in front of the command.
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

trap '' HUP INT TERM USR1 USR2 # Slurm sends a step's signal to all its processes, and it is for the program
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
    exec 3<>in 4>stdin # the open blocks until the command opens `stdin` for reading (fifo(7))
    say "got $WINDOW"
    while read -r kind data <&3; do
      case $kind in
        in)
          if [ "$data" = gap ]; then
            say "no a part of its input was lost on the way"
            # pipe_ssh.sh ends the command. Until then the input must not appear to end.
            exec cat <&3 >/dev/null
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
# This shell opens both, and closes them below. So the pumps see an end even if the command cannot start.
exec 8>out 9>err
(
  trap - HUP INT TERM USR1 USR2
  SSH_ORIGINAL_COMMAND=$(tr -d '\n' <words | base64 -d)
  export SSH_ORIGINAL_COMMAND
  # The command writes its pid, and later signals reach it by that. An earlier signal has left out.stop instead.
  # shellcheck disable=SC2016  # the shell that is started expands these words
  exec "$@" sh -c 'echo $$ >pid; [ ! -e out.stop ] || exit 129; exec sh "$0"' "$here/session.sh" \
    <"$source" >&8 2>&9 8>&- 9>&-
) &
command=$!
exec 8>&- 9>&-
wait "$command"
code=$?
# shellcheck disable=SC2154  # the eval above has set them
wait "$out" "$err" # the pumps end once all output is on its way
if [ -n "$feeder" ]; then kill -KILL "$feeder" 2>/dev/null; fi
# shellcheck disable=SC2046  # two numbers, each a word
say "code $code" $(cat out.lines err.lines 2>/dev/null)
cd /
discard "$box"

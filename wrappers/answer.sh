#!/bin/sh
# `answer.sh BOX NODE ID INPUT [WORDS…]` runs a command that another node of the job has asked for (ask.sh), in the
# directory BOX that node.sh has made for it, and tells how it goes. WORDS start it.
set -u
here=$(cd "${0%/*}" && pwd)
. "$here/frames.sh"
box=$1 way="answer $self $2 $3" input=${4% *} lines=${4#* }
shift 4
cd "$box" || exit 1

if [ "$input" = 0 ]; then input=''; fi
if [ "$(wc -l <words)" -ne "$lines" ]; then
  say "no a part of the command was lost on the way"
  rm -rf "$box"
  exit 1
fi

trap '' HUP INT TERM USR1 USR2 # what is sent to the step is for the program
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
    exec 3<>in 5<>in.data 4>stdin # which waits for the command to open its end
    say "got $WINDOW"
    while read -r kind data <&3; do
      case $kind in
        in)
          if [ "$data" = gap ]; then
            say "no a part of its input was lost on the way"
            kill -s TERM "$(cat pid)" 2>/dev/null
            break
          fi
          unpack "$data" <&5 >&4 || break # it wants no more
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
(
  trap - HUP INT TERM USR1 USR2
  SSH_ORIGINAL_COMMAND=$(tr -d '\n' <words | base64 -d)
  export SSH_ORIGINAL_COMMAND
  exec "$@" sh "$here/session.sh" <"$source" >out 2>err
) &
command=$!
echo "$command" >pid
if [ -e out.stop ]; then kill -s HUP "$command" 2>/dev/null; fi
wait "$command"
code=$?
# shellcheck disable=SC2154  # set by eval
wait "$out" "$err" # until all that it said is on its way
if [ -n "$feeder" ]; then kill -KILL "$feeder" 2>/dev/null; fi
say "code $code"
cd /
rm -rf "$box"

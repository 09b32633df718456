#!/bin/sh
# worker.sh starts `pipe_serve.sh NODE ID 'INPUT N :TEXT:' [WORDS…]` in the container, in the job's directory. It runs
# the command ID that another node NODE has sent (pipe_ssh.sh), and reports its output and exit code.
# WORDS stand in front of the command. A command without input and output costs five processes beside this.
set -u
here=$PWD
. "$here/pipe_frames.sh"
files=run.$1.$2 word=answer way="$1 $2" input=${3%% *} part=${3#* }
parts=${part%% *} part=${part#* }
shift 3
trap '' HUP INT TERM USR1 USR2 # Slurm sends a step's signal to all its processes, and it is for the program
# A shell that cannot fork ends here. The usual end below is an exec, which runs no trap.
trap 'say "no it could not be run to its end"' EXIT

close() { echo ended >"$files.run"; } 2>/dev/null # after that, a signal leaves no file here. The answer may bring one

refuse() { # WHY: Report that the command cannot run
  close
  say "no $1"
  exec rm -f "$files".*
}

text='' come=0
if [ "$parts" -gt 0 ] && [ -e "$files.words" ]; then
  while read -r kept; do
    kept=${kept#:}
    text=$text${kept%:} come=$((come + 1))
  done <"$files.words"
fi
if [ "$come" -ne "$parts" ]; then refuse 'a part of the command was lost on the way'; fi
part=${part#:}
text=$text${part%:}
case $text in
  :*) SSH_ORIGINAL_COMMAND=${text#:} ;;
  *) SSH_ORIGINAL_COMMAND=$(echo "$text" | base64 -d) || refuse 'a part of the command was lost on the way' ;;
esac

lose() { # Tell that a part of the command's input is missing
  say "no a part of its input was lost on the way"
  # pipe_ssh.sh ends the command. Until then the input must not appear to end.
  exec cat <&3 >/dev/null
}

if [ "$input" = 0 ]; then input=''; fi
# In the C locale, a program reads no files of a locale, which a container may have on a slow file system.
LC_ALL=C mkfifo "$files.out" "$files.err" "$files.room.out" "$files.room.err" ${input:+"$files.in" "$files.stdin"} 2>/dev/null ||
  refuse "cannot write to $here"
feeder='' source=/dev/null
if [ -n "$input" ]; then
  source=$files.stdin
  (
    trap lose EXIT # where this shell ends because it cannot fork
    exec 3<>"$files.in" 4>"$files.stdin" # the open blocks until the command opens `stdin` for reading (fifo(7))
    say "got $WINDOW"
    while read -r kind data <&3; do
      case $kind in
        in)
          if [ "$data" = gap ] || [ ! -e "$files.in.$data" ]; then lose; fi
          base64 -d <"$files.in.$data" >&4
          case $? in
            0) say 'got 1' ;;
            1 | 141) break ;; # the command has closed its input
            *) lose ;;
          esac
          ;;
        *) break ;; # eof
      esac
    done
    trap - EXIT
    { : >"$files.fed"; } 2>/dev/null # the pid of this process may be another's from now on
  ) &
  feeder=$!
fi

# A FIFO that is open for both has a writer, so no later open of it waits. This shell closes both below, and then the
# pumps see an end even if the command could not start.
exec 8<>"$files.out" 9<>"$files.err"
(
  exec 3<"$files.out" 4<>"$files.room.out" 8>&- 9>&-
  pump out "$WINDOW" "$files"
  echo "$sent" >"$files.count"
) &
out=$!
exec 3<"$files.err" 4<>"$files.room.err"
(
  trap - HUP INT TERM USR1 USR2
  exec 3<&- 4>&-
  export SSH_ORIGINAL_COMMAND
  if [ -e "$files.stop" ]; then exit 143; fi # as by the TERM below
  exec "$@" sh "$here/session.sh" <"$source" >&8 2>&9 8>&- 9>&-
) &
command=$!
echo "$command" >"$files.pid" # later signals reach the command by this. An earlier one has left files.stop
if [ -e "$files.stop" ]; then kill -s TERM "$command" 2>/dev/null; fi
exec 8>&- 9>&-
pump err "$WINDOW" "$files"
wait "$out" # the pumps end once all output is on its way
wait "$command"
code=$?
if [ -n "$feeder" ] && [ ! -e "$files.fed" ]; then
  kill -KILL "$feeder"
  wait "$feeder" # until its end, it may write `fed`
  rm -f "$files.in" # from now on, worker.sh removes each message that comes
fi 2>/dev/null
out=0
read -r out <"$files.count"
close
if [ "$out $sent" = '0 0' ]; then say "code $code 0 0"; else follow "code $code $out $sent"; fi
export LC_ALL=C
exec rm -f "$files".*

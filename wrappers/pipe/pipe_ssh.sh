#!/bin/sh
# The container's processes call this as `ssh [OPTIONS] NODE COMMAND`, where the job's pipe connects the nodes.
# The command runs in the container of NODE. pipe_frames.sh carries its output, its exit code and its input, if any.
# mpirun waits for one of these for each node. So a command without input and output costs two processes here.
set -u
here=${0%/*}
here=${here%/bin} # on a node this is bin/ssh
me=ssh
LC_ALL=C # each character is a byte
unset TMOUT # with the user's, bash would end a `read`
trap '' USR1 USR2 # Slurm sends a step's signal to all its processes, and it is for the program

fail() { # WORDS…: Print WORDS as an error, and exit with ssh's code
  echo "$me: $*" >&2
  exit 255
}

host='' input=1 behind=''
while [ $# -gt 0 ]; do
  case $1 in
    -V)
      echo "OpenSSH_0.0, mnrun's own: by the job's pipe" >&2
      exit 0
      ;;
    --)
      shift
      if [ -z "$host" ] && [ $# -gt 0 ]; then
        host=$1
        shift
      fi
      break
      ;;
    -?*)
      # Some of ssh's options take a value (ssh(1)). Only n and f have a meaning here.
      letters=${1#-}
      while [ -n "$letters" ]; do
        rest=${letters#?}
        case ${letters%"$rest"} in
          n) input='' ;;
          f) input='' behind=1 ;;
          [BbcDEeFIiJLlmOoPpQRSWw])
            if [ -z "$rest" ] && [ $# -gt 1 ]; then shift; fi
            rest=''
            ;;
        esac
        letters=$rest
      done
      shift
      ;;
    *)
      if [ -n "$host" ]; then break; fi
      host=${1#ssh://}
      host=${host##*@}
      shift
      ;;
  esac
done
if [ -z "$host" ]; then fail "which node? ssh NODE COMMAND"; fi
if [ $# = 0 ] && [ -t 0 ]; then set -- 'exec sh -i'; fi # the shell has no terminal there, and gives a prompt even so

node=''
case $host in localhost | 127.0.0.1) host=$(uname -n) ;; esac
while read -r name others; do
  case " $name $others " in *" $host "*) node=$name && break ;; esac
done <"$here/nodes"
if [ -z "$node" ]; then
  . "$here/job.sh"
  fail "$host is not a node of this job, which has $mnrun_nodes"
fi
# A standard input that is closed, or is /dev/null, has nothing to forward.
if [ ! -e /proc/self/fd/0 ] || [ /proc/self/fd/0 -ef /dev/null ]; then input=''; fi

umask 077
# Blanks separate the fields (proc(5), stat). The second is the name of this shell, which has none. Its pid and its
# start time name the command.
read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ began _ <"/proc/$$/stat"
id=$$.$began
files=$here/ask.$id
. "$here/pipe_frames.sh"
word=ask way="$node $id"
mkfifo "$files.back" "$files.room" 2>/dev/null || fail "cannot write to $here"
# Both are opened before the first request. A FIFO loses its content once no process has it open.
exec 4<>"$files.room" 5<>"$files.back"
if [ ! -e /proc/self/fd/1 ]; then exec >/dev/null; fi

sender=''
leave() { # CODE: Remove the files and exit with CODE
  trap '' HUP INT QUIT TERM
  release
  if [ -n "$sender" ] && [ ! -e "$files.given" ]; then
    echo over >"$files.over"
    kill "$sender"
    echo stop >&4 # a signal just before a `read` does not end it
    wait "$sender" # until its end, it writes files
  fi 2>/dev/null
  rm -f "$files".*
  exit "$1"
}
end() { # SIGNAL: Forward SIGNAL, which ends this ssh, to the command
  say "signal $1"
  rm -f "$files.back" # from now on, worker.sh removes each message that comes
  leave 255
}
mind() { # Trap the signals that end ssh
  for signal in HUP INT QUIT TERM; do
    # shellcheck disable=SC2064  # the signal's name is filled in now
    trap "end $signal" "$signal"
  done
}

mind
text=:$* # with the characters of one line of ASCII, else in base64
case $text in
  *[!\ -~]*) text=$(printf '%s\n' "$*" | base64 | tr -d '\n') || text='' ;;
esac
hundred='??????????' parts=0
hundred=$hundred$hundred$hundred$hundred$hundred$hundred$hundred$hundred$hundred$hundred
most=$hundred$hundred$hundred$hundred$hundred$hundred$hundred$hundred
while [ "${#text}" -gt 800 ]; do
  # shellcheck disable=SC2295  # a pattern
  rest=${text#$most}
  say "words :${text%"$rest"}:"
  text=$rest parts=$((parts + 1))
done
say "run ${input:-0} $parts :$text:"
if [ -n "$input" ]; then
  exec 3<&0 # a background process gets /dev/null as its standard input (POSIX, 2.9.3)
  {
    # A waiting dd would take the input of a later program.
    trap 'release; [ -z "${line-}" ] || follow "eof cut"; exit' TERM
    trap '' HUP INT QUIT
    if [ -e "$files.over" ]; then exit; fi # a shell that has just begun can lose a TERM
    exec 5>&-
    pump in 0 "$files"
    if [ "$sent" = 0 ]; then say 'eof 0'; else follow "eof $sent"; fi
    { : >"$files.given"; } 2>/dev/null # the pid of this process may be another's from now on
  } &
  sender=$! waited=$!
fi

put() { # out|err FILE: Print a message of output, and ask for the next
  # A trap interrupts only `wait`, so base64 runs in the background (POSIX, Signals and Error Handling).
  base64 -d <"$files.$1.$2" &
  wait "$!" || end HUP # the reader of the output has gone
  waited=$!
  say "took $1"
}

hear() { # Handle the answers until the command has ended
  while :; do
    read -r kind data <&5 || continue # a signal that does not end this ssh interrupts the read
    if [ "$data" = gap ]; then
      echo "$me: $node: a part of what came was lost on the way" >&2
      end TERM
    fi
    case $kind in
      out) put out "$data" ;;
      err) put err "$data" >&2 ;;
      code) leave "${data%% *}" ;;
      no)
        echo "$me: $node: $data" >&2
        end TERM
        ;;
    esac
  done
}

if [ -z "$behind" ]; then hear; fi
{
  mind
  hear
} </dev/null & # `ssh -f` goes to the background (ssh(1))

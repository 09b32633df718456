#!/bin/sh
# `pipe_ssh.sh [OPTIONS] NODE COMMAND` is `ssh` where the job's pipe reaches its nodes: the command runs in
# NODE's container, and what it says, its exit code and, where it wants any, its input go by pipe_frames.sh.
set -u
here=$(cd "${0%/*}" && pwd)
me=ssh

fail() {
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
    -?*) # ssh's options, of which some take a value (ssh(1)). Only n and f mean anything here
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

node=''
case $host in localhost | 127.0.0.1) host=$(uname -n) ;; esac
while read -r name others; do
  case " $name $others " in *" $host "*) node=$name ;; esac
done <"$here/nodes"
if [ -z "$node" ]; then
  . "$here/job.sh"
  # shellcheck disable=SC2154  # job.sh
  fail "$host is no node of this job, which has $mnrun_nodes"
fi
if [ -n "$input" ]; then # a standard input that is closed, or /dev/null, has nothing to hand on
  case $(readlink /proc/self/fd/0) in '' | /dev/null) input='' ;; esac
fi

umask 077
box=$(mktemp -d "$here/ask.XXXXXX") || fail "cannot write to $here"
. "$here/pipe_frames.sh"
way="ask $self $node ${box##*.}"
mkfifo "$box/back" "$box/room"
# Both are opened before anything is asked for: what a FIFO holds is lost once nobody has it open.
exec 4<>"$box/room" 5<>"$box/back"
if [ ! -e /proc/self/fd/1 ]; then exec >/dev/null; fi

sender='' giver=''
leave() { # CODE
  trap '' HUP INT TERM
  # shellcheck disable=SC2086  # each is a pid, or nothing
  kill $sender $giver 2>/dev/null
  discard "$box"
  exit "$1"
}
end() { # SIGNAL: hand the signal that ends us to the command
  say "signal $1"
  leave 255
}
mind() { # signals
  for signal in HUP INT TERM; do
    # shellcheck disable=SC2064  # the signal's name is filled in now
    trap "end $signal" "$signal"
  done
}

mind
printf '%s\n' "$*" >"$box/words" || {
  discard "$box"
  fail "cannot write to $here"
}
message words "$box/words"
say "run ${input:-0} $number"
if [ -n "$input" ]; then
  exec 3<&0 # a shell gives what runs in the background /dev/null as its standard input (POSIX, 2.9.3)
  {
    trap 'kill -KILL ${!-} 2>/dev/null; exit' TERM # a dd that still waits would take input that is meant for a later program
    trap '' HUP INT
    exec 5>&-
    pump in 0 "$box/in"
    say "eof $number"
  } &
  sender=$!
fi

put() { # out|err LINE
  base64 -d <"$box/$1.$2" & # in the background: of all waiting a trap interrupts only `wait` (POSIX, Signals and Error Handling)
  giver=$!
  wait "$giver" || end HUP # whoever read our output has gone
  giver=''
  rm -f "$box/$1.$2"
  say "took $1"
}

hear() { # until it has ended
  while :; do
    read -r kind data <&5 || continue # interrupted by a signal that has not ended us
    if [ "$data" = gap ]; then
      echo "$me: $node: a part of what came was lost on the way" >&2
      end TERM
    fi
    case $kind in
      out) put out "$data" ;;
      err) put err "$data" >&2 ;;
      got) if [ -n "$sender" ]; then echo "$data" 1<>"$box/room"; fi ;;
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
} </dev/null & # ssh -f goes to the background (ssh(1))

#!/bin/sh
# `ask.sh [OPTIONS] NODE COMMAND` is `ssh` where the job's pipe reaches its nodes: the command runs in
# NODE's container, and what it says, its exit code and, where it wants any, its input go by frames.sh.
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
    -?*) # letters, of which some take what follows; none but n and f means anything here
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
if [ -n "$input" ]; then # nothing to hand on where it is closed or /dev/null
  case $(readlink /proc/self/fd/0) in '' | /dev/null) input='' ;; esac
fi

umask 077
box=$(mktemp -d "$here/ask.XXXXXX") || fail "cannot write to $here"
. "$here/frames.sh"
way="ask $self $node ${box##*.}"
mkfifo "$box/back" "$box/room"
# before anything is asked for: what nobody holds is lost
exec 4<>"$box/room" 5<>"$box/back"
if [ ! -e /proc/self/fd/1 ]; then exec >/dev/null; fi

sender='' giver=''
leave() { # CODE
  trap '' HUP INT TERM
  # shellcheck disable=SC2086  # none, or pids
  kill $sender $giver 2>/dev/null
  discard "$box"
  exit "$1"
}
end() { # SIGNAL: ours, so the command's
  say "signal $1"
  leave 255
}
mind() { # signals
  for signal in HUP INT TERM; do
    # shellcheck disable=SC2064  # now
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
  exec 3<&0 # what runs in the background would have /dev/null
  {
    trap 'kill -KILL ${!-} 2>/dev/null; exit' TERM # what still waits for input would take it from another
    trap '' HUP INT
    exec 5>&-
    pump in 0 "$box/in"
    say "eof $number"
  } &
  sender=$!
fi

put() { # out|err LINE
  base64 -d <"$box/$1.$2" & # a signal interrupts wait alone
  giver=$!
  wait "$giver" || end HUP # nobody wants it any more
  giver=''
  rm -f "$box/$1.$2"
  say "took $1"
}

hear() { # until it has ended
  while :; do
    read -r kind data <&5 || continue # a signal, which has not ended us
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
} </dev/null & # as ssh -f

# shellcheck shell=sh disable=SC2034,SC2154
# How ask.sh and answer.sh, on two nodes of a job, speak to each other without a network of their own.
#
# A line `ask FROM TO ID KIND DATA` or `answer FROM TO ID KIND DATA` into the node's pipe `across` goes by its
# guard to the launcher, down the lease, and to whom it is for (nodes/relay.py, carry.sh).
#     ask      words DATA   the command, in as many lines as it takes     answer   out DATA   err DATA
#              run INPUT N  all words are there, in N lines; 1: input follows      code N …   it has ended
#              in DATA  eof N                                                      got N      room for so many `in`
#              took out|err room for one more of these                            no WHY     it cannot be asked
#              signal NAME
# DATA is the number of the line in its stream, and base64; a kind with + goes on in the next line of that kind. At the
# end eof and code tell how many lines there were, code after the exit code those of out and of err. Where one is missing
# the command ends with an error, never with less than was said. No line is longer than 1023 bytes: srun mixes up the
# parts of longer ones. Nobody sends more than he was given room for, and data waits in files, so that no pipe on the way
# is ever full: a slow reader holds up his own command alone.
WINDOW=2    # messages under way, of each stream of a command
CHUNK=18000 # bytes in one
number=0    # of the last line of a stream
read -r self <"$here/self"

say() { echo "$way $*" 1<>"$here/across"; }

discard() { # the directory BOX: carry.sh may be about to put a file there, and finds no such place any more
  { mv "$1" "$1.gone" && rm -rf "$1.gone"; } 2>/dev/null
}

message() { # KIND FILE
  kind=$1
  lines=$(base64 -w 800 <"$2" 2>/dev/null) || lines=$(base64 <"$2" | tr -d '\n' | fold -w 800) # a busybox of old
  # shellcheck disable=SC2086  # words of base64
  set -- $lines
  while [ $# -gt 0 ]; do
    number=$((number + 1))
    if [ $# = 1 ]; then say "$kind $number $1"; else say "$kind+ $number $1"; fi
    shift
  done
}

pump() { # KIND ROOM BESIDE: what comes from 3, as far as 4 tells of room; BESIDE is a name for its own files
  room=$2 number=0
  while :; do
    while [ "$room" -lt 1 ]; do
      if [ -e "$3.stop" ]; then exec cat <&3 >/dev/null; fi
      read -r more <&4
      case $more in stop) continue ;; esac
      room=$((room + more))
    done
    dd bs="$CHUNK" count=1 <&3 >"$3.chunk" 2>/dev/null &
    wait $! || [ "$1" = in ] || number=$((number + 1)) # it could not be written here: a full disk
    if [ ! -s "$3.chunk" ]; then break; fi
    message "$1" "$3.chunk"
    room=$((room - 1))
  done
  echo "$number" >"$3.lines"
}

# shellcheck shell=bash
# Processes, as /proc has them. A process has whatever name its owner gives it, with newlines and brackets if he likes:
# so one file is read at a time, its number is that of the directory, and what counts stands after the last `)`
# (proc(5), stat). Sourced.

began() { # PID: sets REPLY to the time of its start, in ticks since the node's, which tells it from a later one of its number
  local fields
  REPLY=''
  { IFS= read -rd '' REPLY <"/proc/$1/stat"; } 2>/dev/null || true # which has no end of that kind
  # shellcheck disable=SC2206  # numbers
  fields=(${REPLY##*) })
  REPLY=${fields[19]-}
  [[ -n $REPLY ]]
}

lives() { # PID BEGAN: whether that very process is there
  [[ $1 =~ ^[0-9]+$ ]] && began "$1" && [[ $REPLY == "$2" ]]
}

session() { # sets REPLY to this shell's session and the time when its leader began (0: hidden from us); to nothing where the
  # leader is outside of this container: its number is then 0, and that of all who are in here
  local session
  read -r _ _ _ _ _ session _ <"/proc/$$/stat"
  began "$session" || REPLY=0
  REPLY="$session $REPLY"
  ((session)) || REPLY=''
}

# shellcheck shell=bash disable=SC1091,SC2154
# guard.sh sources this on the first node of a service. bash itself asks the service, and starts no process for it.

ask_web() { # PATH: Set REPLY to the code of its answer by HTTP, or to a reason without one, and mnrun_answer to its text
  local web line name=localhost
  mnrun_answer='' REPLY='it refuses connections'
  [[ $mnrun_web == 127.* || $mnrun_web == localhost ]] || name=$mnrun_web
  { exec {web}<>"/dev/tcp/$mnrun_web/$mnrun_port"; } 2>/dev/null || return 0
  REPLY='it does not answer'
  printf '%s\r\n' "GET $1 HTTP/1.1" "Host: $name:$mnrun_port" 'Connection: close' \
    ${mnrun_token:+"Authorization: Bearer $mnrun_token"} '' >&"$web" || :
  if IFS= read -r -t 10 line <&"$web" && [[ $line =~ ^HTTP/[0-9.]+\ ([0-9]{3}) ]]; then
    REPLY="it answers ${BASH_REMATCH[1]}"
    IFS= read -r -t 5 -d '' -n 65536 mnrun_answer <&"$web" || :
  fi
  exec {web}>&-
} 2>/dev/null

has() { # ADDRESS STATE: Test whether the port of the service has such a line in this node's tables, both patterns
  local table lines line port
  printf -v port %04X "$mnrun_port"
  for table in /proc/net/tcp /proc/net/tcp6; do
    mapfile -t lines <"$table" || continue
    for line in "${lines[@]}"; do
      # shellcheck disable=SC2053  # a pattern
      [[ $line != *([ ])+([0-9]):\ $1:$port\ +([0-9A-F:])\ $2\ * ]] || return 0
    done
  done 2>/dev/null
  return 1
}

connected() { # Test whether somebody has a connection to the service
  # 01 is ESTABLISHED, and 06 TIME_WAIT, in which a connection stays for 60 s after its end (include/net/tcp_states.h
  # and TCP_TIMEWAIT_LEN of Linux). With a long --idle, 06 counts: so connections between two looks are seen, too.
  local states=01
  ((mnrun_idle < 120)) || states='0[16]'
  has '+([0-9A-F])' "$states"
}

opened() { # Test whether the service listens on more than the loopback: 0A is LISTEN, and 127.0.0.1 and ::1 end so
  has '!(*7F|*00000001000000)' 0A
}

attend() { # Report when the service is ready, and when it was idle for too long
  local said='' since tick=1
  deaf
  trap '' PIPE
  shopt -s extglob
  source ./service
  while :; do
    ask_web "$mnrun_path"
    if [[ $REPLY == 'it answers '[23]?? ]]; then break; fi
    [[ $REPLY == "$said" ]] || say "service waits $REPLY"
    said=$REPLY
    read -rt 1 <>idle || kill -0 $$ || return 0
  done
  if opened; then say 'service ready open'; else say 'service ready'; fi
  [[ -n $mnrun_idle ]] || return 0
  ((tick = mnrun_idle / 6, tick > 0 || (tick = 1), tick < 10 || (tick = 10)))
  since=$SECONDS
  while ((SECONDS - since < mnrun_idle)); do
    read -rt "$tick" <>idle || kill -0 $$ || return 0
    if connected; then
      since=$SECONDS
    elif [[ -n $mnrun_busy ]] && ((SECONDS - since >= mnrun_idle)); then
      ask_web "$mnrun_busy"
      [[ $mnrun_answer != *"$mnrun_sign"* ]] || since=$SECONDS
    fi
  done
  say 'service idle'
}

# shellcheck shell=bash disable=SC2086  # names that are split
# The launcher starts this text on a node, as `bash --norc -p -c CALL SECRET TICKET PORT NAMES`, by a client that may give
# it no input (reach/calling.py). It connects to the launcher, and gets a command to run on these connections: `data` is
# its input and output, and `side` has its errors and its exit code. Then it calls again, for the next command.
# Every user can see the words, connect to the port, or listen there once it is free. So both sides prove that they
# know the secret, which lies in the file SECRET. Each proof holds for one exchange: it has a new number of both sides.
# A pod runs this text by itself, with its secret in a variable and SECRET empty. Then a fifth word is the time in which
# the launcher may begin.
mnrun_signals='HUP INT TERM PIPE USR1 USR2' # the end of a command counts
trap : $mnrun_signals ALRM
# shellcheck disable=SC2329  # a trap calls it
warn() { # Tell the guards of a pod about to end, to whose first process kubelet sends a TERM
  local file pid
  for file in /tmp/mnrun.*/own; do
    if read -r _ _ pid _ <"$file"; then kill -s TERM "$pid"; fi
  done 2>/dev/null
}
[[ -n $0 ]] || trap warn TERM
unset TMOUT # as in boot.sh
[[ -n $0 ]] || export SHELL # as in channel.py
export -n mnrun_secret
if [[ -n $0 ]]; then
  # The file that was opened is judged, not its name, which may lead elsewhere a moment later.
  { exec {mnrun_data}<"$0" && [[ -O /proc/self/fd/$mnrun_data ]] &&
    read -r mnrun_word mnrun_secret <&"$mnrun_data" && [[ $mnrun_word == mnrun-call ]]; } 2>/dev/null || exit 71
  exec {mnrun_data}<&-
  rm -f -- "$0"
fi
[[ -n $mnrun_secret ]] || exit 71
mnrun_ticket=$1 mnrun_port=$2 mnrun_names=${3//,/ } mnrun_wait=$((${4:-0}))
mnrun_runs='' mnrun_idle=$((mnrun_wait / 10 + 60)) # commands, and rounds of 10 s that a pod waits for one
shopt -s lastpipe
proof() { # TEXT: Set REPLY to digits that only who knows the secret can make, or return false
  printf %s "$mnrun_secret$1" | sha512sum | read -r REPLY _
}
connect() { # Set REPLY to a new connection to the launcher, and keep to the name that led there
  local name failed watched=''
  for name in $mnrun_names; do
    # If a firewall drops the packets, the system tries for minutes. Unless this is the only name, a signal ends that.
    if [[ $mnrun_names == *' '* ]]; then { read -rt 3 <> <(:) || kill -s ALRM "$$"; } & watched=$!; fi
    { exec {REPLY}<>"/dev/tcp/$name/$mnrun_port"; } 2>/dev/null
    failed=$?
    [[ -z $watched ]] || kill "$watched"
    ((failed)) || { mnrun_names=$name && return 0; }
  done
  return 1
}
call() { # Return false where the launcher cannot be reached, or has dropped the connection
  local own its word
  read -r own </proc/sys/kernel/random/uuid
  proof "hello $mnrun_ticket $mnrun_port $own" || return 1
  word=${REPLY::32}
  connect || return 1
  mnrun_data=$REPLY
  printf '%s %s %s\n' "$mnrun_ticket" "$own" "$word" >&"$mnrun_data"
  read -rt 10 its word <&"$mnrun_data" || return 1
  proof "reply $mnrun_ticket $mnrun_port $own $its" || return 1
  [[ $word == "${REPLY::32}" ]] || fail 73
  its=$REPLY
  connect || return 1
  mnrun_side=$REPLY
  printf '%s %s\n' "$mnrun_ticket" "${its:32:32}" >&"$mnrun_side"
  read -rt 10 mnrun_mark <&"$mnrun_side" || return 1
  [[ $mnrun_mark == "${its:64:32}" ]] || fail 73
}
fail() { # CODE: End with a code that the launcher knows (ENDS in reach/calling.py)
  echo "mnrun: $mnrun_ticket: no mnrun at ${mnrun_names// / or }, port $mnrun_port: code $1" >&2
  exit "$1"
}
reach() { # Call until the launcher answers
  local tries=0 said
  until call 2>/dev/null; do
    { exec {mnrun_data}>&-; exec {mnrun_side}>&-; } 2>/dev/null
    if ((++tries >= 5 && SECONDS >= mnrun_wait)); then
      # Without network redirections, the name is that of a file (bash(1), REDIRECTION).
      said=$({ : <>"/dev/tcp/${mnrun_names%% *}/$mnrun_port"; } 2>&1) && fail 75
      [[ $said != *'No such file'* ]] || fail 74
      fail 72
    fi
    sleep "$((tries >= 5)).2"
  done
  mnrun_wait=0
}
busy() { # Test whether a command runs
  local pid
  for pid in $mnrun_runs; do kill -0 "$pid" && return 0; done 2>/dev/null
  return 1
}
words() { # Set mnrun_words to those that the launcher gives, with the port of the next call and a size in front
  local LC_ALL=C port size idle=0 # a size counts bytes, as in the C locale
  until read -rt 10 port size <&"$mnrun_data"; do
    (($? > 128)) || fail 76
    # A launcher whose machine is gone, or cut off as it ends, says no word. Its pod would keep its GPUs for ever.
    if [[ -n $0 ]] || busy; then idle=0; else ((++idle < mnrun_idle)) || fail 76; fi
  done
  mnrun_port=$port
  ((size > 0)) && IFS= read -rN "$size" mnrun_words <&"$mnrun_data"
}
run() { # Run the words on the connections. In a session of its own, a command may end all of its session
  local words
  trap : $mnrun_signals
  eval "words=($mnrun_words)"
  setsid -w "${words[@]}" <&"$mnrun_data" >&"$mnrun_data" 2>&"$mnrun_side" {mnrun_data}>&- {mnrun_side}>&-
  printf '\0%s %s\n' "$mnrun_mark" "$?" >&"$mnrun_side"
  # A connection that is closed with input in it is reset, and its last output is lost (tcp_close in Linux). So the
  # input is read to its end, which the launcher makes at the code.
  while IFS= read -rt 30 -N 65536 REPLY <&"$mnrun_data"; do :; done 2>/dev/null
}
trap wait EXIT # the client lives as long as the commands
while reach && words; do
  run & mnrun_runs+=" $!"
  [[ $mnrun_words != */tmp/mnrun.* ]] || mnrun_idle=3 # a guard has been here (hold.sh)
  exec {mnrun_data}>&- {mnrun_side}>&-
done
exit 0

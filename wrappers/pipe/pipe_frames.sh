# shellcheck shell=sh disable=SC2034,SC2154
# pipe_ssh.sh and pipe_serve.sh source this in the containers of two nodes. docs/internals/pipe.md explains the pipe,
# and PROTOCOL.toml has its words.
# TEXT, all parts together, is a colon and the command. A command with other characters than ASCII's is in base64.
# No line is longer than 1023 bytes. Slurm carries output in messages of 1024 bytes (SLURM_IO_MAX_MSG_LEN), and srun
# mixes up the parts of longer lines.
WINDOW=8 # messages of each stream of a command that may be on the way
CHUNK=65536 # bytes in one message: as many as a pipe of Linux holds (pipe(7))
sent=0 # characters of the stream
waited='' # the background process that was waited for last
read -r self <"$here/self"

# The sourcing script sets `word` to ask or answer, and `way` to the other node and ID.
say() { printf '%s\n' "$word $way $*" 1<>"$here/up"; } # the guard adds its own node

release() { # End the last background process, unless it was waited for
  # A signal may arrive between the start of the process and the next command. `$!` has the pid even then.
  if [ "${!-}" != "$waited" ]; then kill -KILL "$!"; fi 2>/dev/null
}

follow() { # WORDS…: Send WORDS behind the data
  echo across 1<>"$here/up" # the guard reads `across` after the first such word
  echo "$word $self $way $*" 1<>"$here/across"
}

message() { # KIND FILE: Send FILE as one message of KIND
  if [ "$sent" = 0 ]; then
    echo across 1<>"$here/up"
    exec 6<>"$here/across"
  fi
  line="$word $self $way $1" data=''
  width=$(((1000 - ${#line}) / 4 * 4)) # base64 has groups of four characters
  # Older versions of busybox have a base64 without -w.
  lines=$(base64 -w "$width" <"$2" 2>/dev/null) || lines=$(base64 <"$2" | tr -d '\n' | fold -w "$width")
  for next in $lines; do
    if [ -n "$data" ]; then
      echo "$line+ $sent $data" >&6
      sent=$((sent + width))
    fi
    data=$next
  done
  echo "$line $sent $data" >&6
  sent=$((sent + ${#data}))
}

pump() { # KIND ROOM BOX: Send the input from file descriptor 3 in messages of KIND
  # It sends ROOM messages, and then as many as file descriptor 4 grants. BOX.stop tells that nobody waits for them.
  room=$2 sent=0 chunk=$3.$1.chunk
  while :; do
    while [ "$room" -lt 1 ]; do
      if [ -e "$3.stop" ]; then
        cat <&3 >/dev/null
        return 0
      fi
      read -r more <&4
      case $more in stop) continue ;; esac
      room=$((room + more))
    done
    begin=$sent
    LC_ALL=C dd bs="$CHUNK" count=1 <&3 >"$chunk" 2>/dev/null &
    # dd fails where the disk is full. This counts data that is never sent, so the receiver notices the loss. An input
    # that cannot be read has no data, and dd fails too: then as much fits into another file.
    wait "$!" ||
      { [ "$1" = in ] && dd if=/dev/zero bs="$CHUNK" count=1 >"$3.try" 2>/dev/null; } || sent=$((sent + 1))
    waited=$!
    if [ ! -s "$chunk" ]; then return 0; fi
    # A pipe that was full may have more. busybox has no iflag, and sends less at once. dd also fails where no more has
    # come yet, so its message tells that the disk is full.
    if [ -n "${fast-}" ]; then
      case $(LC_ALL=C dd if=/proc/self/fd/3 iflag=nonblock bs="$CHUNK" count=15 2>&1 >>"$chunk" <&3) in
        *writing*) sent=$((sent + 1)) ;;
      esac
    fi
    message "$1" "$chunk"
    fast=''
    if [ $((sent - begin)) -gt "$CHUNK" ] && [ -p /proc/self/fd/3 ]; then fast=1; fi
    room=$((room - 1))
  done
}

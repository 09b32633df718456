# shellcheck shell=sh disable=SC2034,SC2154
# pipe_ssh.sh and pipe_serve.sh source this in the containers of two nodes. By it they exchange lines without a network
# of their own.
#
# Both write lines `ask FROM TO ID KIND …` and `answer FROM TO ID KIND …` into the pipe `across` of their node. That
# node's guard forwards the line to the launcher, and the launcher sends it down the lease to the node TO
# (nodes/relay.py, pipe_demux.sh). ID names the command.
#
# Kinds of `ask`, from the asking node:
#     words DATA         the command, in as many lines as it needs
#     run INPUT N        all words are sent, in N lines. INPUT is 1 where standard input follows
#     in DATA, eof N     standard input, and its end
#     took out|err       one more message of this stream may come
#     signal NAME        send this signal to the command
# Kinds of `answer`, from the node that runs the command:
#     out DATA, err DATA standard output and standard error
#     code C OUT ERR     the command has ended, with the exit code C
#     got N              N more messages of `in` may come
#     no WHY             the command cannot run
#
# DATA is the number of the line in its stream, and base64. A kind with + continues in the next line of that kind.
# N, OUT and ERR count the lines of the whole input, output and errors. If the receiver misses a line, the command ends
# with an error. So a loss never goes unnoticed.
# No line is longer than 1023 bytes. Slurm carries output in messages of 1024 bytes (SLURM_IO_MAX_MSG_LEN), and srun
# mixes up the parts of longer lines.
# A side sends only as many messages as the other side has room for, and data waits in files. So no pipe on the way is
# ever full. A slow reader delays only its own command.
WINDOW=2 # messages of each stream of a command that may be on the way
CHUNK=18000 # bytes in one message
number=0 # of the last line in the stream
read -r self <"$here/self"

say() { echo "$way $*" 1<>"$here/across"; }

discard() { # BOX: Remove the directory BOX
  # Under its new name, pipe_demux.sh cannot put another file into it.
  { mv "$1" "$1.gone" && rm -rf "$1.gone"; } 2>/dev/null
}

message() { # KIND FILE: Send FILE as one message of KIND
  kind=$1
  # Older versions of busybox have a base64 without -w.
  lines=$(base64 -w 800 <"$2" 2>/dev/null) || lines=$(base64 <"$2" | tr -d '\n' | fold -w 800)
  # shellcheck disable=SC2086  # words of base64, which hold no blanks and no patterns
  set -- $lines
  while [ $# -gt 0 ]; do
    number=$((number + 1))
    if [ $# = 1 ]; then say "$kind $number $1"; else say "$kind+ $number $1"; fi
    shift
  done
}

pump() { # KIND ROOM NAME: Send the input from file descriptor 3 in messages of KIND
  # It sends ROOM messages, and then as many as file descriptor 4 grants. NAME.chunk, NAME.lines and NAME.stop are its
  # files.
  room=$2 number=0
  while :; do
    while [ "$room" -lt 1 ]; do
      if [ -e "$3.stop" ]; then exec cat <&3 >/dev/null; fi
      read -r more <&4
      case $more in stop) continue ;; esac
      room=$((room + more))
    done
    dd bs="$CHUNK" count=1 <&3 >"$3.chunk" 2>/dev/null &
    # dd fails where the disk is full. This counts a line that is never sent, so the receiver notices the loss.
    wait $! || [ "$1" = in ] || number=$((number + 1))
    if [ ! -s "$3.chunk" ]; then break; fi
    message "$1" "$3.chunk"
    room=$((room - 1))
  done
  echo "$number" >"$3.lines"
}

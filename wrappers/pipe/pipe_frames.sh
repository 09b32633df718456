# shellcheck shell=sh disable=SC2034,SC2154
# How pipe_ssh.sh and pipe_serve.sh, on two nodes of a job, speak to each other without a network of their own.
#
# Both write lines `ask FROM TO ID KIND …` and `answer FROM TO ID KIND …` into their node's pipe `across`. A line goes
# by that node's guard to the launcher, and down the lease to the node TO (nodes/relay.py, pipe_demux.sh). ID names the command.
#
# Kinds of `ask`, from the node that asks:
#     words DATA         the command, in as many lines as it takes
#     run INPUT N        all words have been sent, in N lines. INPUT is 1 where standard input follows
#     in DATA, eof N     standard input, and its end
#     took out|err       one more message of this stream may be sent
#     signal NAME        send this signal to the command
# Kinds of `answer`, from the node where the command runs:
#     out DATA, err DATA standard output and errors
#     code C OUT ERR     the command has ended, with the exit code C
#     got N              N more messages of `in` may be sent
#     no WHY             the command cannot be run
#
# DATA is the number of the line in its stream, and base64. A kind with + goes on in the next line of that kind.
# N, OUT and ERR are numbers of lines: of the whole input, output and errors. Where the receiver misses one of them the
# command ends with an error: never does less arrive unnoticed.
# No line is longer than 1023 bytes: Slurm carries output in messages of 1024 bytes (SLURM_IO_MAX_MSG_LEN), and srun mixes
# up the parts of longer lines. Nobody sends more than the other side has given room for, and data waits in files. So no
# pipe on the way is ever full, and a slow reader holds up no command but their own.
WINDOW=2    # messages of each stream of a command that may be under way
CHUNK=18000 # bytes in one message
number=0    # of the stream's last line
read -r self <"$here/self"

say() { echo "$way $*" 1<>"$here/across"; }

discard() { # BOX: remove that directory. It gets another name first, so that pipe_demux.sh cannot put one more file into it
  { mv "$1" "$1.gone" && rm -rf "$1.gone"; } 2>/dev/null
}

message() { # KIND FILE
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

pump() { # KIND ROOM NAME: send what comes from file descriptor 3, in ROOM messages and as many more as 4 gives room for.
  # Its own files are NAME.chunk, NAME.lines and NAME.stop
  room=$2 number=0
  while :; do
    while [ "$room" -lt 1 ]; do
      if [ -e "$3.stop" ]; then exec cat <&3 >/dev/null; fi
      read -r more <&4
      case $more in stop) continue ;; esac
      room=$((room + more))
    done
    dd bs="$CHUNK" count=1 <&3 >"$3.chunk" 2>/dev/null &
    # dd fails where the disk is full. The line that is counted here and never sent tells the receiver that output is lost.
    wait $! || [ "$1" = in ] || number=$((number + 1))
    if [ ! -s "$3.chunk" ]; then break; fi
    message "$1" "$3.chunk"
    room=$((room - 1))
  done
  echo "$number" >"$3.lines"
}

#!/bin/sh
# Comes by into.sh. The first process inside a serving container. It keeps the container's own
# environment for whoever comes later, starts what the connect needs, and ends with its
# standard input, which the node's guard holds. By it come the lines of pipe_frames.sh for this node, each
# with the node that asks in front; it never waits for a command, so that none waits for another.
set -eu
. ./job.sh
. ./pid.sh
# shellcheck disable=SC2154  # into.sh's
PATH=$mnrun_here/bin:$PATH
export PATH
export -p >session.env
mnrun_noted pid.serve "$(readlink /proc/self/ns/pid)"
case $mnrun_nodes in
  *,*)
    if [ ! -x ./bin/ssh ]; then # which is how one node reaches another
      echo "fail $mnrun_here is mounted noexec, as is /dev/shm, and mpirun's agent is a program there: have one of them mounted exec${mnrun_inside:+, or use --mode outside-in}" 1<>up
      exit 1
    fi
    ;;
esac
trap '' HUP INT TERM USR1 USR2 # what is sent to the step is for the program
case $mnrun_connect in
  ssh | auto) sh ./sshd.sh & ;;
  pipe) echo ready 1<>up ;;
esac

hand() { # TO LINE: to one that holds the other end, if it is still there
  if [ -p "$1" ]; then echo "$2" 1<>"$1"; fi 2>/dev/null || :
}

# shellcheck disable=SC2013  # pids
below() { # PID: it, and all that descends from it, stopped so that it starts no more of them
  kill -s STOP "$1" 2>/dev/null || :
  echo "$1"
  # there a process's name, which may hold anything, has no newlines (proc(5), status)
  for child in $(grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status); do
    child=${child#/proc/}
    below "${child%/status}"
  done
}

umask 077
# What a shell without a terminal starts in the background ignores SIGINT: not so a user's command,
# where the image has an env that can tell it so. Elsewhere a Ctrl-C comes to it as TERM.
plain=''
if env --default-signal true 2>/dev/null; then plain='env --default-signal'; fi
while read -r node id kind data; do
  box=run.$node.$id
  case $kind in
    words | words+)
      {
        if [ ! -d "$box" ]; then mkdir "$box" && (cd "$box" && mkfifo out err room.out room.err in stdin); fi &&
          echo "${data#* }" >>"$box/words"
      } || : # a full disk, say: pipe_serve.sh tells of it
      ;;
    run)
      (
        trap - HUP INT TERM USR1 USR2
        # shellcheck disable=SC2086  # two words, or none
        exec sh ./pipe_serve.sh "$PWD/$box" "$node" "$id" "$data" $plain </dev/null
      ) &
      ;;
    signal)
      case $plain$data in INT) data=TERM ;; esac
      if [ -d "$box" ]; then : >"$box/out.stop" && : >"$box/err.stop"; fi
      hand "$box/room.out" stop
      hand "$box/room.err" stop
      if pid=$(cat "$box/pid" 2>/dev/null); then
        pids=$(below "$pid")
        # shellcheck disable=SC2086  # words
        { kill -s "$data" $pids; kill -s CONT $pids; } 2>/dev/null || :
      fi
      ;;
  esac
done

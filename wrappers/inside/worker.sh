#!/bin/sh
# into.sh runs this as the first process in the container of a node that waits for mpirun. It ends with its standard
# input, which carries the pipe's lines for this node: `ask|answer NODE ID KIND …`, from the other node.
# It never waits for a command, so no command waits for another.
set -eu
. ./job.sh
. ./pid.sh
# shellcheck disable=SC2154  # into.sh's
PATH=$mnrun_here/bin:$PATH
export PATH
# bash cannot read these back, although an image's ENV may have them.
# shellcheck disable=SC3045  # bash has these
if [ -n "${BASH_VERSINFO-}" ]; then export -n BASHOPTS BASH_VERSINFO EUID PPID SHELLOPTS UID; fi
export -p >session.env
mnrun_namespace
mnrun_self
echo "serve $mnrun_process" 1<>up
case $mnrun_nodes in
  *,*)
    if [ ! -x ./bin/ssh ]; then # the nodes reach each other by this program
      echo "fail $mnrun_here and /dev/shm are mounted noexec, and mnrun must run a script in one of them: an admin mounts one with exec${mnrun_inside:+, or use --mode outside-in}" 1<>up
      exit 1
    fi
    ;;
esac
case $mnrun_connect$mnrun_nodes in # the pipe needs these of the image (pipe_ssh.sh, pipe_serve.sh)
  pipe*,*)
    lacks=''
    for tool in base64 cat dd grep mkfifo rm tr; do command -v "$tool" >/dev/null || lacks="$lacks${lacks:+, }$tool"; done
    if [ -n "$lacks" ]; then
      echo "fail the image has no $lacks, by which nodes exchange data: install coreutils and grep, or busybox, in it${mnrun_inside:+, or use --mode outside-in}" 1<>up
      exit 1
    fi
    ;;
esac
trap '' HUP INT TERM USR1 USR2 # a signal to the step is for the program
case $mnrun_connect in
  ssh) sh ./sshd.sh & ;;
  pipe) echo ready 1<>up ;;
esac

hand() { # TO LINE: Write LINE to the pipe TO. Return false if no process holds its other end any more
  [ -p "$1" ] && echo "$2" 1<>"$1" || return 1
  [ -p "$1" ] || { rm -f "$1" && return 1; } # the pipe had gone, and the redirection has made a file
} 2>/dev/null

# shellcheck disable=SC2013  # pids
below() { # PID: Stop PID and all its descendants, and print them
  # A stopped process starts no more processes.
  kill -s STOP "$1" 2>/dev/null || :
  echo "$1"
  # A newline in the name of a process is escaped in this file (proc(5), status).
  for child in $(grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status); do
    child=${child#/proc/}
    below "${child%/status}"
  done
}

umask 077
# A shell without a terminal starts background processes that ignore SIGINT and SIGQUIT. An image's env may be able to
# restore them for the user's command. In other images a Ctrl-C arrives as TERM.
plain=unknown
while read -r word node id kind data; do
  case $word in
    ask) files=run.$node.$id reader=$files.in ;;
    *) files=ask.$id reader=$files.back ;;
  esac
  case $kind in
    words) printf '%s\n' "$data" >>"$files.words" || : ;; # the disk may be full, and pipe_serve.sh reports it
    run)
      if [ "$plain" = unknown ]; then
        plain=''
        if env --default-signal >/dev/null 2>&1; then plain='env --default-signal'; fi
      fi
      echo runs >"$files.run" || :
      (
        trap - HUP INT TERM USR1 USR2
        # shellcheck disable=SC2086  # two words, or none
        exec sh ./pipe_serve.sh "$node" "$id" "$data" $plain </dev/null
      ) &
      ;;
    signal)
      case $plain$data in INT | QUIT) data=TERM ;; esac
      if ! { read -r state <"$files.run" && [ "$state" = runs ]; } 2>/dev/null; then continue; fi
      echo "$data" >"$files.stop" || :
      hand "$files.room.out" stop || :
      hand "$files.room.err" stop || :
      if { read -r pid <"$files.pid"; } 2>/dev/null; then
        pids=$(below "$pid")
        # shellcheck disable=SC2086  # words
        { kill -s "$data" $pids; kill -s CONT $pids; } 2>/dev/null || :
      fi
      ;;
    took) hand "$files.room.$data" 1 || : ;;
    got) hand "$files.room" "$data" || : ;;
    *) hand "$reader" "$kind $data" || case $kind in in | out | err) rm -f "$files.$kind.$data" ;; esac ;;
  esac
done

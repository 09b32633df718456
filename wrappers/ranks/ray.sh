#!/bin/sh
# rank.sh runs `ray.sh COMMAND…` in the container of each node, in the user's environment. It runs the node's part of
# the job's Ray cluster. On the first node it becomes COMMAND, once mnrun has heard that all nodes are in.
# Every port is one of the job's own, so that jobs share nodes. Ray's usual ports allow one cluster for each node.
# shellcheck disable=SC2154  # job.sh and program.sh
set -u
unset TMOUT # with the user's, bash would end a `read`
mnrun_here=${0%/*}
. "$mnrun_here/job.sh"
. "$mnrun_here/pid.sh"
. "$mnrun_here/ports.sh"
. "$mnrun_here/program.sh"
mnrun_index=$NODE_RANK mnrun_cpus=${mnrun_ray% *} mnrun_count=${mnrun_ray#* }
unset NODE_RANK mnrun_ray
read -r mnrun_node <"$mnrun_here/self"

fail() { # WORDS: Tell mnrun the reason for which this node has no Ray
  echo "fail $*" 1<>"$mnrun_here/up"
  exit 125
}

place() { # Set mnrun_words to the place of this node in the cluster, and its ports
  ports $((4 * mnrun_cpus + 72)) "$(taken)"
  set --
  for mnrun_it in $mnrun_free; do
    [ "$mnrun_it" = "${RAY_ADDRESS##*:}" ] || set -- "$@" "$mnrun_it"
  done
  [ $# -gt 8 ] || fail "Ray needs more ports than are free here of --ports $mnrun_ports"
  mnrun_words="--node-manager-port=$1 --object-manager-port=$2 --runtime-env-agent-port=$3 --metrics-export-port=$4"
  mnrun_words="$mnrun_words --dashboard-agent-listen-port=$5 --dashboard-agent-grpc-port=$6"
  if [ "$mnrun_index" != 0 ]; then
    mnrun_words="--address=$RAY_ADDRESS $mnrun_words"
  else
    mnrun_words="--head --node-ip-address=${RAY_ADDRESS%:*} --port=${RAY_ADDRESS##*:} $mnrun_words"
    mnrun_words="$mnrun_words --include-dashboard=false --dashboard-port=$7"
    # Ray opens a port for its clients where it finds grpc, and refuses one where it does not (parameter.py, 2.60).
    if $mnrun_python -c 'import grpc' 2>/dev/null; then mnrun_words="$mnrun_words --ray-client-server-port=$8"; fi
  fi
  shift 8
  mnrun_words="$mnrun_words --worker-port-list=$(IFS=, && echo "$*")"
}

share() { # Add to mnrun_words the share of this node that the job has
  mnrun_words="$mnrun_words --num-cpus=$mnrun_cpus"
  if [ -n "$mnrun_no_gpu" ]; then
    mnrun_words="$mnrun_words --num-gpus=0"
  elif [ -n "${CUDA_VISIBLE_DEVICES+set}" ]; then
    IFS=,
    # shellcheck disable=SC2086  # numbers or UUIDs
    set -- $CUDA_VISIBLE_DEVICES
    unset IFS
    mnrun_words="$mnrun_words --num-gpus=$#"
  fi
  # Without these, Ray takes 30 % of the node's memory for its objects, and the rest for its processes.
  if read -r mnrun_limit <"$mnrun_here/limit"; then
    mnrun_it=$((mnrun_limit * 3 / 10))
    mnrun_words="$mnrun_words --object-store-memory=$mnrun_it --memory=$((mnrun_limit - mnrun_it))"
  fi 2>/dev/null
  case $mnrun_runtime in host) mnrun_it=/dev/shm/mnrun.$mnrun_id ;; *) mnrun_it=$mnrun_here/shm ;; esac
  # Ray's sockets are in there, below 63 more letters, and the path of a socket has at most 107 (unix(7)).
  mnrun_words="$mnrun_words --plasma-directory=$mnrun_it --temp-dir=$mnrun_here/tmp"
}

follow() { # Read what Ray says on this node. Tell mnrun when the node is in, and why it has left
  mnrun_why='' mnrun_last=''
  while IFS= read -r mnrun_line; do
    printf '%s\n' "$mnrun_line"
    case $mnrun_line in
      *'Ray runtime started.'*) echo "rank $mnrun_index $mnrun_count $mnrun_process" 1<>"$mnrun_here/up" ;;
      "$mnrun_mark") break ;;
      *'[exit code='*) mnrun_why=${mnrun_line##* -- } ;; # raylet [exit code=-9]
      *[![:blank:]]*) mnrun_last=${mnrun_line##* -- } ;;
    esac
  done
  [ -e "$mnrun_here/over" ] || fail "Ray has ended here: ${mnrun_why:-$mnrun_last}"
} >>"$mnrun_here/ray.log"

# A worker's `ray start` may give up where the head is late. A shell's background process ignores SIGINT, and below one
# Ray could not cancel a task.
BEGIN='import os, signal, socket, sys, time
while sys.argv[1]:
    try:
        socket.create_connection(sys.argv[1].rsplit(":", 1), 9).close()
        break
    except OSError:
        time.sleep(0.1)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[2], sys.argv[2:])'

run() { # Run Ray on this node
  mnrun_it=''
  [ "$mnrun_index" = 0 ] || mnrun_it=$RAY_ADDRESS
  # shellcheck disable=SC2086  # words without blanks
  { $mnrun_python -c "$BEGIN" "$mnrun_it" ray start --block "--node-name=$mnrun_node" $mnrun_words; echo "$mnrun_mark"; } \
    </dev/null 2>&1 | follow
}

mnrun_try ray
if [ -n "$mnrun_why" ]; then
  case $mnrun_runtime in host) mnrun_it='the node' ;; *) mnrun_it='the image' ;; esac
  fail "$mnrun_it has no ray, which --launcher ray starts: install it there (pip install ray), or set PATH by -x"
fi
# The Python of Ray is in the first line of its program, or beside it where that line would be too long.
read -r mnrun_python <"$mnrun_file"
case $mnrun_python in
  '#!'*python*) mnrun_python=${mnrun_python#'#!'} ;;
  *) mnrun_python=${mnrun_file%/*}/python3 ;;
esac
if [ "$mnrun_index" = 0 ]; then
  mnrun_try "$1"
  if [ -n "$mnrun_why" ]; then
    echo "$mnrun_why" >&2
    exit "$mnrun_code"
  fi
fi
export RAY_USAGE_STATS_ENABLED="${RAY_USAGE_STATS_ENABLED-0}"
place
share
mnrun_names=''
if [ -n "$mnrun_inside" ]; then mnrun_namespace; fi
mnrun_self
mnrun_mark=$(printf '\001%s ended\001' "$mnrun_process")
if [ "$mnrun_index" != 0 ]; then
  trap : HUP INT QUIT TERM USR1 USR2 ALRM # signals are for COMMAND
  run
  exit 1
fi
(run &) # COMMAND must not have a child that it has not started
read -r _ <"$mnrun_here/there"
exec "$@"

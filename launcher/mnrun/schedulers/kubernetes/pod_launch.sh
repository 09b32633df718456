#!/bin/bash
# The launcher of an MPIJob or a TrainJob: `pod_launch.sh WORLD SECONDS HOSTFILE KEYS COMMAND…` in its pod.
# It counts the slots of HOSTFILE, waits until ssh reaches each host in it, and becomes COMMAND.
set -euo pipefail
world=$1 seconds=$2 hostfile=$3 keys=$4
shift 4
fail() { # CODE TEXT
  echo "mnrun: $2" >&2
  exit "$1"
}
hosts=() slots=0
# `name slots=2` for Open MPI, and `name:2` for Hydra
while read -r host rest || [ -n "$host" ]; do
  case $host in '' | '#'*) continue ;; esac
  count=${host#*:}
  [ "$count" != "$host" ] || count=1
  case $rest in *slots=*) count=${rest##*slots=} count=${count%%[!0-9]*} ;; esac
  hosts+=("${host%%:*}") slots=$((slots + count))
done <"$hostfile"
[ "$slots" = "$world" ] || fail 1 "$hostfile has $slots slots on ${#hosts[@]} hosts, and the job has $world ranks; \
write the job anew with mnrun plan, and change neither replicas nor slotsPerWorker"

# A key that its group may read, ssh refuses. That of a trainer is such a key.
key=$(mktemp)
cat "$keys/id_rsa" >"$key"
args="${PRTE_MCA_plm_ssh_args:--o ConnectionAttempts=10} -i $key"
args+=' -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR'
# The operator's own variables stand behind those of a pod, and win: they are changed here.
export PRTE_MCA_plm_ssh_args="$args" OMPI_MCA_plm_rsh_args="$args" HYDRA_LAUNCH_EXTRA_ARGS="$args"
export I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS="$args"
declare -A asked=()
for host in "${hosts[@]}"; do
  # shellcheck disable=SC2086  # words
  { until ssh $args -o BatchMode=yes -o ConnectTimeout=5 "$host" true </dev/null &>/dev/null; do sleep 1; done; } &
  asked[$!]=$host
done
while running=$(jobs -rp) && [ -n "$running" ]; do
  [ "$SECONDS" -lt "$seconds" ] || {
    silent=''
    for pid in $running; do silent+=" ${asked[$pid]}"; done
    # shellcheck disable=SC2086  # pids
    kill $running
    fail 121 "ssh does not reach$silent within $seconds s; kubectl logs shows why their pods have no sshd"
  }
  sleep 0.2
done

# By an absolute name, Open MPI tells its daemons where it lies. A session of ssh has neither PATH nor libraries.
program=$(type -P "$1") || fail 127 "there is no $1 in the image"
exec "$program" "${@:2}"

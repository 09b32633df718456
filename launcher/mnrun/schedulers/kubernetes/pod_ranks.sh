#!/bin/bash
# The ranks of a pod without an MPI: `pod_ranks.sh NODES EACH ADDRESS PORT STARTER COMMAND…`. STARTER is env or torchrun.
# The first rank that fails ends the others of its pod, and has the code of the pod.
set -uo pipefail
nodes=$1 each=$2 starter=$5
export MASTER_ADDR=$3 MASTER_PORT=$4 NODE_RANK=${JOB_COMPLETION_INDEX:-0}
shift 5
if [ "$starter" = torchrun ]; then
  export PET_NNODES=$nodes PET_NODE_RANK=$NODE_RANK PET_NPROC_PER_NODE=$each
  export PET_MASTER_ADDR=$MASTER_ADDR PET_MASTER_PORT=$MASTER_PORT
  exec "$@"
fi
export WORLD_SIZE=$((nodes * each)) LOCAL_WORLD_SIZE=$each
export JAX_COORDINATOR_ADDRESS=$MASTER_ADDR:$MASTER_PORT JAX_NUM_PROCESSES=$WORLD_SIZE
pids=()
for ((local = 0; local < each; local++)); do
  rank=$((NODE_RANK * each + local))
  RANK=$rank LOCAL_RANK=$local JAX_PROCESS_ID=$rank "$@" &
  pids+=($!)
done
trap 'kill "${pids[@]}" 2>/dev/null' TERM # of the pod
exec 3<> <(:) # a pipe to which nobody writes
code=0
# In bash 5.2, `wait -n` misses processes that have ended before it.
while [ "${#pids[@]}" -gt 0 ]; do
  for place in "${!pids[@]}"; do
    kill -0 "${pids[place]}" 2>/dev/null && continue
    wait "${pids[place]}"
    bad=$?
    unset "pids[$place]"
    [ "$bad" = 0 ] || [ "$code" != 0 ] || {
      code=$bad
      kill "${pids[@]}" 2>/dev/null
    }
  done
  read -rt 0.2 -u 3
done
exit "$code"

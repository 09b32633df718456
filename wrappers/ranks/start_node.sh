#!/bin/sh
# start.sh runs `start_node.sh NODE NODES FIRST COUNT SIZE [ADDRESS PORT WORDS…]` in the container of each node.
# It starts COUNT of all SIZE ranks, from rank FIRST on, or one torchrun that starts them. They meet at ADDRESS:PORT.
# Without ADDRESS, it reads the rest from standard input, quoted for a shell.
# When a rank fails, it reports that to the guard, ends the other ranks here and exits with the failed rank's code.
set -u
here=${0%/*}
. "$here/job.sh"
node=$1 nodes=$2 first=$3 count=$4 size=$5
shift 5
if [ $# = 0 ]; then eval "set -- $(cat)"; fi
export MASTER_ADDR="$1" MASTER_PORT="$2" NODE_RANK="$node"
shift 2

: >"$here/without_mpi" # the guard passes a signal on to the ranks, and not to an mpirun
# shellcheck disable=SC2154  # job.sh
if [ "$mnrun_starter" = torchrun ]; then
  # The variables stand for torchrun's options, and the user's options override them (torch.distributed.run).
  export PET_NNODES="$nodes" PET_NODE_RANK="$node" PET_NPROC_PER_NODE="$count"
  export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"
  first=$node count=1
else
  export WORLD_SIZE="$size" LOCAL_WORLD_SIZE="$count"
  export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT" JAX_NUM_PROCESSES="$size"
  export HOROVOD_SIZE="$size" HOROVOD_LOCAL_SIZE="$count" HOROVOD_CROSS_RANK="$node" HOROVOD_CROSS_SIZE="$nodes"
fi

# A shell without a terminal starts background processes that ignore SIGINT. SIGINT is for the program.
plain=''
if env --default-signal >/dev/null 2>&1; then plain='env --default-signal'; fi
export MNRUN_JOB_START="$node.$$." # all descendants of these ranks carry this mark
mkfifo "$here/tmp/ended.$node"
exec 3<>"$here/tmp/ended.$node" 4>&2 2>/dev/null # the shell says `Terminated` of processes that others end
local_rank=0
while [ "$local_rank" -lt "$count" ]; do
  rank=$((first + local_rank))
  {
    if [ "$mnrun_starter" != torchrun ]; then
      export RANK="$rank" LOCAL_RANK="$local_rank"
      export JAX_PROCESS_ID="$rank" HOROVOD_RANK="$rank" HOROVOD_LOCAL_RANK="$local_rank"
    fi
    $plain "$@" 2>&4 3>&- 4>&-
    echo "$rank $?" >&3
  } </dev/null &
  local_rank=$((local_rank + 1))
done

all() { # SIGNAL: Signal the ranks of this node and all their descendants
  # A process of another Slurm job does not count, although it may have inherited the mark.
  pids=''
  # shellcheck disable=SC2013  # no blanks in them
  for environ in $(grep -slF "MNRUN_JOB_START=$MNRUN_JOB_START" /proc/[0-9]*/environ); do
    job=$(tr '\0' '\n' <"$environ" | sed -n 's/^SLURM_JOB_ID=//p')
    environ=${environ#/proc/}
    case $job in '' | "${SLURM_JOB_ID-}") pids="$pids ${environ%/environ}" ;; esac
  done 2>/dev/null
  # shellcheck disable=SC2086  # pids
  [ -n "$pids" ] && kill -s "$1" $pids
}

bad=0 ending=''
while [ "$count" -gt 0 ]; do
  read -r rank code <&3
  count=$((count - 1))
  if [ "$code" != 0 ] && [ "$bad" = 0 ]; then
    bad=$code
    # This report must come before those of ranks on other nodes that miss this rank.
    echo "ended $rank $code" 1<>"$here/up"
    {
      all TERM
      sleep 5
      while all KILL; do sleep 1; done
    } >/dev/null 3>&- 4>&- &
    ending=$!
  fi
done
if [ -n "$ending" ]; then kill "$ending"; fi
all KILL # a process that a rank left in the background would hold the connection, and with it the job
exit "$bad"

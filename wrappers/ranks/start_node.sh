#!/bin/sh
# `start_node.sh NODE NODES FIRST COUNT SIZE [ADDRESS PORT WORDS…]` is one node's part of start.sh: COUNT ranks of all SIZE, from
# FIRST on, which meet at ADDRESS:PORT; or one torchrun, which starts as many. When one fails it says so, and
# ends the others; it leaves with that code. The rest is read, quoted, from standard input where it is not given.
set -u
here=${0%/*}
. "$here/job.sh"
node=$1 nodes=$2 first=$3 count=$4 size=$5
shift 5
if [ $# = 0 ]; then eval "set -- $(cat)"; fi
export MASTER_ADDR="$1" MASTER_PORT="$2" NODE_RANK="$node"
shift 2

# shellcheck disable=SC2154  # job.sh
if [ "$mnrun_starter" = torchrun ]; then
  # as torchrun's own options, which may say otherwise (torch.distributed.run)
  export PET_NNODES="$nodes" PET_NODE_RANK="$node" PET_NPROC_PER_NODE="$count"
  export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"
  first=$node count=1
else
  export WORLD_SIZE="$size" LOCAL_WORLD_SIZE="$count"
  export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT" JAX_NUM_PROCESSES="$size"
  export HOROVOD_SIZE="$size" HOROVOD_LOCAL_SIZE="$count" HOROVOD_CROSS_RANK="$node" HOROVOD_CROSS_SIZE="$nodes"
fi

# what a shell without a terminal starts in the background ignores SIGINT, which is for the program
plain=''
if env --default-signal true 2>/dev/null; then plain='env --default-signal'; fi
export MNRUN_JOB_START="$node.$$." # the mark of all that these ranks start
mkfifo "$here/tmp/ended.$node"
exec 3<>"$here/tmp/ended.$node" 4>&2 2>/dev/null # a shell says `Terminated` of what others ended
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

all() { # SIGNAL: to the ranks here and all that they have started, however far it has gone, but not to another job of Slurm's
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
    echo "ended $rank $code" 1<>"$here/up" # before those on other nodes that miss it
    {
      all TERM
      sleep 5
      while all KILL; do sleep 1; done
    } >/dev/null 3>&- 4>&- &
    ending=$!
  fi
done
if [ -n "$ending" ]; then kill "$ending"; fi
all KILL # what a rank left in the background would hold the connection, and with it the job
exit "$bad"

#!/bin/sh
# `ranks.sh NODE NODES FIRST COUNT SIZE ADDRESS PORT WORDS…` is one node's part of start.sh: COUNT ranks of all SIZE, from
# FIRST on, which meet at ADDRESS:PORT; or one torchrun, which starts as many. It leaves with the code
# of the first that failed, having ended the others.
set -u
here=${0%/*}
. "$here/job.sh"
node=$1 nodes=$2 first=$3 count=$4 size=$5
export MASTER_ADDR="$6" MASTER_PORT="$7" NODE_RANK="$node"
shift 7

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

mkfifo "$here/tmp/ended.$node"
exec 3<>"$here/tmp/ended.$node" 4>&2 2>/dev/null # a shell says `Terminated` of what others ended
# A rank is to end with all that it has started; and what a shell without a terminal starts in the
# background ignores SIGINT.
plain=''
if setsid true; then plain=setsid; fi
if env --default-signal true; then plain="$plain env --default-signal"; fi
local_rank=0
while [ "$local_rank" -lt "$count" ]; do
  rank=$((first + local_rank))
  {
    if [ "$mnrun_starter" != torchrun ]; then
      export RANK="$rank" LOCAL_RANK="$local_rank"
      export JAX_PROCESS_ID="$rank" HOROVOD_RANK="$rank" HOROVOD_LOCAL_RANK="$local_rank"
    fi
    $plain "$@" 2>&4 3>&- 4>&-
    echo $? >&3
  } </dev/null &
  local_rank=$((local_rank + 1))
done

each() { # SIGNAL: to every rank here, once it has said which process it is
  rank=$first
  while [ "$rank" -lt $((first + count)) ]; do
    until [ -e "$here/pid.$rank" ]; do sleep 0.05; done
    read -r pid rest <"$here/pid.$rank"
    kill -s "$1" -- "-$pid" || kill -s "$1" "$pid" || :
    rank=$((rank + 1))
  done
}

left=$count bad=0 ending=''
while [ "$left" -gt 0 ]; do
  read -r code <&3
  left=$((left - 1))
  if [ "$code" != 0 ] && [ "$bad" = 0 ]; then
    bad=$code
    { each TERM && sleep 5 && each KILL; } >/dev/null 3>&- 4>&- & # a connection ends only when nobody holds it
    ending=$!
  fi
done
if [ -n "$ending" ]; then kill "$ending"; fi
exit "$bad"

#!/bin/sh
# rank.sh runs `gpu_closest.sh [GPUS]` for a rank, in its container. It prints the GPUs nearest to the CPUs that it
# runs on, or all where the CPUs are not bound, or where the distances are unknown. Without GPUS, which is
# CUDA_VISIBLE_DEVICES, it chooses from the table of gpu_numa.sh.
here=${0%/*} sys=${mnrun_sys:-/sys}/devices/system
cpus=${mnrun_cpus-$(while read -r name list; do [ "$name" != Cpus_allowed_list: ] || echo "$list"; done </proc/self/status)}
own=' '
IFS=,
for range in $cpus; do
  cpu=${range%-*}
  while [ "$cpu" -le "${range#*-}" ]; do
    for place in "$sys/cpu/cpu$cpu"/node*; do
      node=${place##*/node}
      case $own in *" $node "*) ;; *) [ "$node" = '*' ] || own="$own$node " ;; esac
    done
    cpu=$((cpu + 1))
  done
done
wanted=${1-$(while IFS=" " read -r index _; do [ "$index" = - ] || printf '%s,' "$index"; done <"$here/near")}

distance() { # NUMA: Print the distance of NUMA from the nearest of this rank's NUMA nodes
  least=10
  [ "$1" != -1 ] || { echo "$least"; return 0; }
  least=999
  IFS=' '
  for node in $own; do
    read -r line <"$sys/node/node$node/distance" || continue
    place=0
    for far in $line; do
      if [ "$place" = "$1" ] && [ "$far" -lt "$least" ]; then least=$far; fi
      place=$((place + 1))
    done
  done
  echo "$least"
}

nearest=1000 chosen=''
for gpu in $wanted; do
  far=10
  while IFS=" " read -r index uuid numa; do
    case $gpu in "$index" | "$uuid") far=$(distance "$numa") ;; esac
  done <"$here/near"
  if [ "$far" -lt "$nearest" ]; then nearest=$far chosen=''; fi
  [ "$far" != "$nearest" ] || chosen=$chosen${chosen:+,}$gpu
done
echo "$chosen"

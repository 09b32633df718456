#!/bin/bash
# `gpu_numa.sh` says to which NUMA node each GPU of this node belongs, a line of each: INDEX UUID NUMA; and - UUID NUMA of each
# MIG instance. -1 is one that does not say.
set -euo pipefail
declare -A numa=()
while IFS=', ' read -r index uuid bus; do
  bus=${bus,,}
  numa[$uuid]=$(cat "${mnrun_sys:-/sys}/bus/pci/devices/${bus: -12}/numa_node" 2>/dev/null || echo -1)
  echo "$index $uuid ${numa[$uuid]}"
done < <(nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader)
((${#numa[@]}))
gpu=''
while read -r line; do # GPU 0: NAME (UUID: GPU-…), and below it MIG 1g.5gb Device 0: (UUID: MIG-…)
  uuid=${line##*UUID: } uuid=${uuid%)}
  case $line in
    GPU\ *) gpu=$uuid ;;
    MIG\ *) echo "- $uuid ${numa[$gpu]--1}" ;;
  esac
done < <(nvidia-smi -L)

#!/bin/bash
# The guard runs `gpu_numa.sh` on the node, into the file `near`. It prints the NUMA node of each GPU of this node, in
# lines INDEX UUID NUMA, or - UUID NUMA for MIG instances. NUMA is -1 where a GPU does not tell.
set -euo pipefail
declare -A numa=()
while IFS=', ' read -r index uuid bus; do
  bus=${bus,,}
  numa[$uuid]=$(cat "${mnrun_sys:-/sys}/bus/pci/devices/${bus: -12}/numa_node" 2>/dev/null || echo -1)
  echo "$index $uuid ${numa[$uuid]}"
done < <(nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader 2>/dev/null)
if ((${#numa[@]} == 0)); then
  echo 'nvidia-smi shows no GPU on this node, and --gpu-bind closest needs it' >&2
  exit 1
fi
gpu=''
while read -r line; do # the lines are GPU 0: NAME (UUID: GPU-…), then MIG 1g.5gb Device 0: (UUID: MIG-…)
  uuid=${line##*UUID: } uuid=${uuid%)}
  case $line in
    GPU\ *) gpu=$uuid ;;
    MIG\ *) echo "- $uuid ${numa[$gpu]--1}" ;;
  esac
done < <(nvidia-smi -L 2>/dev/null)

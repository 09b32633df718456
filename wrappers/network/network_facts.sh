#!/bin/bash
# The guard runs `network_facts.sh [ROOT]` on the node. network_ask.sh and survey.sh have it as a function in front.
# It prints the node's networks, adapters, GPUs and limits (docs/internals/facts.md). It runs on every node of every
# job, so it starts hardly any process.
# ROOT is the place of /sys, /proc and /dev, for tests.
set -u
shopt -s nullglob
root=${1-}
PATH=$PATH:/usr/sbin:/sbin

get() { # FILE: Set value to its first line. Some files of sysfs cannot be read
  value=''
  { read -r value <"$1"; } 2>/dev/null
}

device() { # DIRECTORY: Set where to ` numa=… pci=…`. The path from the device's root tells the distances
  where=''
  cd -P "$1" 2>/dev/null || return 1
  get "$PWD/numa_node"
  where=" numa=${value:--1} pci=${PWD##*/devices/}"
}

names() { # PATHS…: Set list to their last parts, separated by commas
  local IFS=,
  list="${*##*/}"
}

for nic in "$root"/sys/class/net/*; do
  [[ -d $nic ]] || continue
  kind=''
  while read -r line; do
    [[ $line != DEVTYPE=* ]] || kind=${line#*=}
  done <"$nic/uevent"
  get "$nic/type"
  case $value in 772) kind=loopback ;; 32) kind=ipoib ;; esac
  if [[ -z $kind && -e $nic/device ]]; then kind=physical; fi
  get "$nic/operstate"
  pairs="kind=${kind:-virtual} state=$value"
  get "$nic/speed"
  if ((${value:-0} > 0)); then pairs+=" speed=$value"; fi
  names "$nic"/lower_*
  if [[ -n $list ]]; then pairs+=" lower=${list//lower_/}"; fi
  device "$nic/device"
  echo "nic ${nic##*/} $pairs$where"
done

while read -ra word; do
  case ${word[*]} in
    *' inet '*) echo "address ${word[1]} ${word[3]}" ;;
    *' dev '*) echo "route ${word[0]} ${word[*]:1}" ;;
  esac
done < <(ip -o -4 -batch - 2>/dev/null <<<$'address show up\nroute show')

for port in "$root"/sys/class/infiniband/*/ports/*; do
  hca=${port%/ports/*}
  pairs="hca ${hca##*/} port=${port##*/}"
  get "$port/state" && pairs+=" state=${value#*: }"
  get "$port/rate" && pairs+=" rate=${value%% *}"
  get "$port/link_layer"
  link=$value
  # iWARP is RDMA over Ethernet, but not RoCE. NCCL does not support it.
  if get "$hca/node_type" && [[ $value == 4:* ]]; then link=iWARP; fi
  [[ -z $link ]] || pairs+=" link=$link"
  get "$hca/device/device" && pairs+=" id=$value"
  names "$hca"/device/net/*
  if [[ -n $list ]]; then pairs+=" nics=$list"; fi
  if cd -P "$hca/device/driver" 2>/dev/null; then pairs+=" driver=${PWD##*/}"; fi
  device "$hca/device"
  echo "$pairs$where"
  [[ $link == Ethernet ]] || continue
  for number in {0..15}; do
    get "$port/gids/$number"
    [[ -n ${value//[0:]/} ]] || continue
    pairs="gid ${hca##*/} port=${port##*/} index=$number gid=$value"
    get "$port/gid_attrs/types/$number"
    pairs+=" type=${value##* }"
    get "$port/gid_attrs/ndevs/$number"
    echo "$pairs ndev=$value"
  done
done

for gpu in "$root"/proc/driver/nvidia/gpus/*; do
  device "$root/sys/bus/pci/devices/${gpu##*/}"
  echo "gpu ${gpu##*/}$where"
done
for nic in "$root"/sys/class/cxi/*; do
  device "$nic/device"
  echo "cxi ${nic##*/}$where"
done

verbs=("$root"/dev/infiniband/uverbs*)
if ((${#verbs[@]})); then echo 'feature verbs'; fi
if [[ -e $root/dev/gdrdrv ]]; then echo 'feature gdrcopy'; fi
if [[ -d $root/sys/module/nvidia_peermem || -d $root/sys/module/nv_peer_mem ]]; then echo 'feature peermem'; fi
get "$root/proc/driver/nvidia/version"
if [[ $value == *'Open Kernel Module'* ]]; then echo 'feature dmabuf'; fi
get "$root/proc/sys/kernel/osrelease"
echo "kernel release $value"

while read -ra word; do # the units are bytes. The hard limits count, because a job's limits rise to them
  case ${word[*]} in
    'Max stack size'*) echo "limit stack ${word[4]}" ;;
    'Max open files'*) echo "limit nofile ${word[4]}" ;;
    'Max locked memory'*) echo "limit memlock ${word[4]}" ;;
  esac
done <"$root/proc/self/limits"
read -r _ memory _ <"$root/proc/meminfo"
echo "limit memory $((memory * 1024))"
size=''
# The last of several mounts lies on top. A tmpfs without a size has half of the memory (tmpfs(5))
while read -r line; do
  [[ $line == *' /dev/shm '*' - tmpfs '* ]] || continue
  if [[ $line =~ [,\ ]size=([0-9]+)k ]]; then size=${BASH_REMATCH[1]}; else size=$((memory / 2)); fi
done <"$root/proc/self/mountinfo"
[[ -z $size ]] || echo "limit shm $((size * 1024))"
exit 0

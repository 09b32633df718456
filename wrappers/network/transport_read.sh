#!/bin/bash
# The guard runs `transport_read.sh FILES…` on the node, at the end of a job. FILES are those of transport_debug.sh.
# It prints a line TRANSPORT DEVICES LIBRARY for each network between nodes that a library used.
# TRANSPORT is tcp, or ib for any RDMA. DEVICES are separated by commas, and - means that no device was named.
# After tcp, a line `there DEVICES -` lists the node's devices for ib.
set -euo pipefail
said=$(awk '
function found(transport, device, library, key) {
  key = transport SUBSEP library
  if (!(key in devices)) order[++count] = key
  if (index(devices[key] ",", "," device ",") == 0) devices[key] = devices[key] (device == "" ? "" : "," device)
}
function after(text) { return substr($0, index($0, text) + length(text)) }
function slow(name) { return name ~ /^(Socket|tcp|sockets|udp|tcp;ofi_rxm)$/ }

/NCCL INFO / {
  if (match($0, /NET\/[A-Za-z0-9_]+ : Using /)) { # as [0]mlx5_0:1/IB [1]… ; or [0]eth0:10.0.0.1<0>
    name = substr($0, RSTART + 4, RLENGTH - 13)
    amount = split(after(" : Using "), words, " ")
    for (i = 1; i <= amount && words[i] ~ /^\[[0-9]+\]/; i++) {
      device = words[i]
      gsub(/^\[[0-9]+\]|[;,]$/, "", device)
      if (name == "Socket") sub(/:.*/, "", device); else sub(/\/.*/, "", device)
      offered[name] = offered[name] "," device
    }
    if (network == "") network = name
  }
  if (match($0, /NET\/OFI Selected [Pp]rovider is [a-z0-9_;]+/)) provider = substr($0, RSTART + 29, RLENGTH - 29)
  if (match($0, /(Using|Initialized NET plugin|Assigned NET plugin) (network )?(IB|Socket|AWS Libfabric|Libfabric)[A-Za-z0-9_]*/)) {
    network = substr($0, RSTART, RLENGTH)
    sub(/^.*(network|plugin) /, "", network)
  }
  if (match($0, /via NET\/[^\/]+\//)) { # NCCL names the network of a channel to another node last, and that one counts
    via = substr($0, RSTART + 8, RLENGTH - 9)
    if ($0 ~ /\/GDRDMA/) direct = 1
  }
}
/ UCX  INFO / && !/intra-node/ {
  text = after(" UCX  INFO ")
  while (match(text, /[a-z_]+\([^)]*\)/)) {
    group = substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
    if (group ~ /^ka\(/) continue # keepalive, not data
    sub(/^[a-z_]+\(/, "", group)
    sub(/\)$/, "", group)
    amount = split(group, words, " ")
    for (i = 1; i <= amount; i++) {
      split(words[i], parts, "/")
      if (parts[1] == "tcp") found("tcp", parts[2], "UCX")
      else if (parts[1] ~ /^(rc|dc|ud|srd|gga|ib)(_|$)/) found("ib", parts[2], "UCX")
    }
  }
}
/mca: bml: Using tcp btl / { found("tcp", "", "Open MPI") }
/mca: bml: Using (openib|uct|ofi|usnic|portals4|ugni) btl / { found("ib", "", "Open MPI") }
match($0, /mtl:ofi:provider: [A-Za-z0-9_;]+/) {
  device = substr($0, RSTART + 18, RLENGTH - 18)
  if (device != "none") found(slow(device) ? "tcp" : "ib", device, "Open MPI")
}
END {
  if (via != "") network = via
  if (network != "") {
    transport = network == "Socket" || slow(provider) && network ~ /Libfabric/ ? "tcp" : "ib"
    found(transport, network ~ /Libfabric/ ? provider : substr(offered[network], 2), "NCCL")
    if (direct) found(transport, "GPUDirect", "NCCL")
  }
  for (i = 1; i <= count; i++) {
    split(order[i], parts, SUBSEP)
    list = devices[order[i]]
    print parts[1], list == "" ? "-" : substr(list, 2, 300), parts[2]
  }
}' "$@" </dev/null)
[[ -n $said ]] || exit 0
echo "$said"
[[ $said == tcp* || $said == *$'\n'tcp* ]] || exit 0
there=''
for port in "${mnrun_sys:-/sys}"/class/infiniband/*/ports/* "${mnrun_sys:-/sys}"/class/cxi/*; do
  device=${port%/ports/*}
  case $port in
    */cxi/*) [[ -e $port ]] || continue ;;
    *)
      grep -qs ACTIVE "$port/state" || continue
      # Many servers have Ethernet adapters for RDMA that are not set up. So only fast ones count.
      [[ $(<"$port/link_layer") != Ethernet ]] || (($(grep -oE '^[0-9]+' "$port/rate") >= 100)) || continue
      device+=:${port##*/}
      ;;
  esac
  there+=,${device##*/}
done
[[ -z $there ]] || echo "there ${there#,} -"

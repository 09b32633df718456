#!/bin/bash
# shellcheck disable=SC2154  # walk.sh's, and words.sh's
# Of walk.sh: limits that are too small for what the nodes have, as launcher/mnrun/network/facts.py judges them for a live run.

declare -A mnrun_has=() # NODE:WHAT -> its value, or how many

hear_of_limits() { # NODE LINES, fabric.sh's, with tabs between
  local line lines
  IFS=$'\t' read -ra lines <<<"$2"
  for line in "${lines[@]}"; do
    case "$line " in
      'limit '*) line=${line#* } && mnrun_has[$1:${line%% *}]=${line##* } ;;
      'gpu '*) mnrun_has[$1:gpus]=$((${mnrun_has[$1:gpus]:-0} + 1)) ;;
      'cxi '*) mnrun_has[$1:Slingshot]=1 ;;
      'have '*) line=${line#* } && mnrun_has[$1:${line%% *}]=1 ;;
      'hca '*' state=ACTIVE '*' driver=efa '*) mnrun_has[$1:EFA]=1 ;;
      'hca '*' state=ACTIVE '*' link=InfiniBand '*) mnrun_has[$1:InfiniBand]=1 ;;
      'hca '*' state=ACTIVE '*' link=Ethernet '*) mnrun_has[$1:RoCE]=1 ;;
    esac
  done
}

fast() { # NODE: what it has for RDMA, where a program can use it, as `what`
  for what in Slingshot EFA InfiniBand RoCE; do
    [[ -z ${mnrun_has[$1:$what]-} ]] || [[ $what != Slingshot && -z ${mnrun_has[$1:verbs]-} ]] || return 0
  done
  what=''
}

in_units() { # BYTES
  local number=$1 unit
  for unit in bytes kB MB GB TB; do
    if ((number < 1024)) || [[ $unit == TB ]]; then break; fi
    number=$((number / 1024))
  done
  echo "$number $unit"
}

warn_of_limits() {
  local node limit least text value what gpus
  local -A small=() # line -> nodes, each with a comma before it
  for node in "${mnrun_names[@]}"; do
    what='' gpus=${mnrun_has[$node:gpus]:-0}
    ((${#mnrun_names[@]} < 2)) || fast "$node"
    [[ -n $what ]] || ((gpus > 1)) || continue
    for text in "${mnrun_limits[@]}"; do
      read -r limit least text <<<"$text"
      value=${mnrun_has[$node:$limit]:-unlimited}
      if [[ $limit == memlock && -n $what ]]; then least=$((${mnrun_has[$node:memory]:-0} / 2)); fi # RDMA alone locks it
      if [[ $value == *[!0-9]* ]] || ((value >= least)); then continue; fi
      [[ $limit == nofile ]] || value=$(in_units "$value")
      text=${text/'{found}'/$value}
      small[${text/'{what}'/${what:-NCCL with $gpus GPUs}}]+=,$node
    done
  done
  for text in "${!small[@]}"; do say "warning: $(folded "${small[$text]#,}"): $text"; done
}

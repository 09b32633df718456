#!/bin/bash
# shellcheck disable=SC2154  # walk.sh's, and words.sh's
# Of walk.sh: limits that are too small for what the nodes have, as launcher/fabric.py judges them for a live run.

declare -A mnrun_has=() # NODE:WHAT -> its value, or how many

hear_of_limits() { # NODE LINE, one of fabric.sh's
  local kind name words
  read -r kind name words <<<"$2"
  case "$kind $words " in
    limit*) mnrun_has[$1:$name]=${words%% *} ;;
    gpu*) mnrun_has[$1:gpus]=$((${mnrun_has[$1:gpus]:-0} + 1)) ;;
    cxi*) mnrun_has[$1:Slingshot]=1 ;;
    have*) mnrun_has[$1:$name]=1 ;;
    hca*' state=ACTIVE '*' driver=efa '*) mnrun_has[$1:EFA]=1 ;;
    hca*' state=ACTIVE '*' link=InfiniBand '*) mnrun_has[$1:InfiniBand]=1 ;;
    hca*' state=ACTIVE '*' link=Ethernet '*) mnrun_has[$1:RoCE]=1 ;;
  esac
}

fast() { # NODE: what it has for RDMA, where a program can use it
  local kind
  for kind in Slingshot EFA InfiniBand RoCE; do
    if [[ -n ${mnrun_has[$1:$kind]-} && ($kind == Slingshot || -n ${mnrun_has[$1:verbs]-}) ]]; then
      echo "$kind"
      return
    fi
  done
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
    ((${#mnrun_names[@]} < 2)) || what=$(fast "$node")
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

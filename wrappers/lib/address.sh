# shellcheck shell=bash disable=SC2154  # the scheduler's lines, in front of boot.sh and of network_ask.sh
# The guard sources this file on the node. network_ask.sh has it in front.

address() { # HOST: Set REPLY to the address where other nodes reach this one, whose name is HOST
  # Debian writes 127.0.1.1 for its own name, which no other node reaches.
  while read -r REPLY _; do
    [[ $REPLY == 127.* ]] || return 0
  done < <(getent ahostsv4 "$1")
  REPLY=$mnrun_address
  # At some sites, names do not resolve, and Slurm knows the nodes by NodeAddr alone (slurm.conf(5)).
  [[ -n $REPLY || -z $mnrun_peer ]] || towards "$mnrun_peer"
}

towards() { # ADDRESS: Set REPLY to this node's own address on the route to ADDRESS, or to nothing
  local PATH=$PATH:/usr/sbin:/sbin
  REPLY=$(ip -o -4 route get "$1" 2>/dev/null) || REPLY=''
  REPLY=${REPLY#* src } REPLY=${REPLY%% *}
  [[ $REPLY != 127.* ]] || REPLY=''
}

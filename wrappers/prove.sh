#!/bin/bash
# shellcheck disable=SC2154  # walk.sh's
# Of walk.sh: what the run has shown, as launcher/mnrun/nodes/transport.py has it for a live one.

declare -A mnrun_used=() # TRANSPORT DEVICES LIBRARY: on which nodes, each with a comma before it

hear_of_proof() { # WORD NODE LINE
  case $1 in
    used) mnrun_used[${3#used "$2" }]+=,$2 ;;
    topology) printf '%s\n' "${3#*:}" >>"$mnrun_record/topology.$2" ;;
  esac
}

by() { # SAID: in words
  local transport devices library
  read -r transport devices library <<<"$1"
  [[ $devices != - ]] || devices=''
  devices=${devices//,/, }
  echo "$library by $transport${devices:+ ($devices)}"
}

prove() { # the run in a line, and judged by it; `status` is judge's
  local name said count total=0 where='' network='' slow='' wrong='' there=''
  local -A alike=()
  for name in "${mnrun_names[@]}"; do
    count=${mnrun_count[$name]-0}
    ((count == 0)) || alike[$count]+=,$name
    total=$((total + count))
  done
  for name in "${!alike[@]}"; do where+="${where:+, }$(folded "${alike[$name]#,}") x $name"; done
  for said in "${!mnrun_used[@]}"; do
    name=$(folded "${mnrun_used[$said]#,}")
    if [[ $said == there\ * ]]; then
      there+="${there:+; }$name: $(cut -d' ' -f2 <<<"$said")"
      continue
    fi
    network+="${network:+; }$(by "$said")"
    [[ $said != tcp\ * ]] || slow=$(by "$said")
    [[ -z ${mnrun_require-} || $said == "$mnrun_require "* ]] || wrong+="${wrong:+; }$(by "$said") on $name"
  done
  where="$total ranks on ${where:-no node}; ${network:-no word of a network}"
  echo "$where" >"$mnrun_record/summary"
  [[ -z $network ]] || say "$where"
  [[ -z $slow || -z $there ]] || say "warning: $slow, though there is faster: ${there//,/, }"
  [[ -n ${mnrun_require-} && $status == 0 ]] && ((${#mnrun_names[@]} > 1)) || return 0
  [[ -n $network ]] || wrong='neither NCCL nor UCX nor Open MPI has said by what it talked'
  [[ -z $wrong ]] || blamed 122 "--require $mnrun_require: $wrong"
}

# shellcheck shell=bash disable=SC2154  # the scheduler's lines
# The scripts that ask a node have these functions in front. They print facts (docs/internals/facts.md), and start no
# process.
node=$mnrun_node
fact() { # NAME VALUE…: Print a fact of the node, unless its value is empty
  local value=${*:2}
  [[ -z $value ]] || printf 'fact %s node %s %s\n' "$node" "$1" "${value//[$'\t\n']/ }"
}
driver() { # Print the version of the node's NVIDIA driver
  # The line is `… UNIX x86_64 Kernel Module  VERSION  …`, or `… UNIX Open Kernel Module for x86_64  VERSION  …`.
  local line
  { read -r line <"${mnrun_proc:-/proc}/driver/nvidia/version"; } 2>/dev/null || return 0
  [[ ! $line =~ 'Kernel Module'[^.]*\ ([0-9.]+) ]] || echo "${BASH_REMATCH[1]}"
}
facts() { # [SUBJECT]: Print the facts `SUBJECT NAME VALUE` on standard input, or only those of SUBJECT
  local line
  while IFS= read -r line; do
    [[ -n ${1-} && $line != "$1 "* ]] || printf 'fact %s %s\n' "$node" "${line//$'\t'/ }"
  done
}

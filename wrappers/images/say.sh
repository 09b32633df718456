# shellcheck shell=bash disable=SC2154  # the scheduler's lines set mnrun_node
# The scripts of PREPARE tell mnrun by these functions (PROTOCOL.toml, up).

say() { printf '%s\n' "$1 $mnrun_node ${*:2}"; } # WORD …

last() { # WORD WHY: Say this, and exit
  # The launcher then ends the lease. A TERM that comes within the trap of EXIT would end this shell before it is clean.
  trap '' TERM INT HUP
  say "$@"
  exit 1
}

fail() { last fail "$*"; } # WHY: Report a fault of the node, and exit

# shellcheck shell=bash disable=SC2154  # facts.sh
# survey.sh and mpi_node.sh have this in front, on the node.
scheduler() { # [version]: Print facts of Grid Engine: its PEs with their rules, the time of a warning, resources
  [[ -n ${1-} ]] && command -v qconf >/dev/null || return 0
  local pe
  fact scheduler "Grid Engine $(qconf -help 2>/dev/null </dev/null | sed -n '1s/^[^ ]* //p')"
  fact scheduler-PEs "$(for pe in $(qconf -spl 2>/dev/null); do
    qconf -sp "$pe" | awk -v pe="$pe" '{ of[$1] = $2 } END { print pe, of["allocation_rule"], of["control_slaves"] }'
  done | awk '{ printf "%s%s (%s%s)", sep, $1, $2, $3 == "TRUE" ? "" : ", control_slaves FALSE"; sep = ", " }')"
  fact scheduler-notify "$(qconf -sq "${QUEUE:-$(qconf -sql | head -n 1)}" 2>/dev/null | sed -n 's/^notify *//p')"
  fact scheduler-resources "$(qconf -sc 2>/dev/null | awk '$6 ~ /YES|JOB/ { printf "%s%s", sep, $1; sep = " " }')"
}

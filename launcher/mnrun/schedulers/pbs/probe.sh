# shellcheck shell=bash disable=SC2154  # facts.sh
# survey.sh and mpi_node.sh have this in front, on the node.
scheduler() { # [version]: Print facts of PBS: its version, whether it keeps history and lets nodes hand jobs in
  [[ -n ${1-} ]] && command -v qstat >/dev/null || return 0
  fact scheduler "PBS $(qstat --version 2>&1 </dev/null | sed -n 's/^.*[=:] *//p')"
  qstat -B -f 2>/dev/null </dev/null | sed -n 's/^ *\(job_history_enable\|flatuid\|default_queue\) = /\1 /p' |
    while read -r name value; do fact "scheduler-$name" "$value"; done
  # shellcheck source=/dev/null
  [[ ! -r /etc/pbs.conf ]] || . /etc/pbs.conf
  [[ -x ${PBS_EXEC:-/opt/pbs}/bin/pbs_attach ]] || fact scheduler-attach "no pbs_attach: ssh alone reaches the nodes"
}

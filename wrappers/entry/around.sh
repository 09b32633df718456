# shellcheck shell=bash
# The launcher starts this text on a node of a running job, as `bash --norc -p -c AROUND JOB WORDS…` (running/beside.py).
# It becomes WORDS, whose lease comes through a process with the mark of JOB. At the end of JOB, its guard ends that
# process, and so the lease.
exec {mnrun_lease}<&0 {mnrun_out}>&1
exec < <(
  trap '' HUP INT TERM
  MNRUN_JOB_ID=$0 cat <&"$mnrun_lease" || echo "service ${MNRUN_NODE-} over" >&"$mnrun_out"
) {mnrun_lease}<&- {mnrun_out}>&-
exec "$@"

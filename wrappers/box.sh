#!/bin/bash
# `box.sh CONTEXT PLACE WORDS…` runs WORDS, a container runtime's, as a process of the job: without
# what leaks from the host and its scheduler in this context (launcher/environment.py has the
# rules), with the job's mark, and with PLACE in the node directory as its own TMPDIR.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
context=$1 place=$here/$2
shift 2
source "$here/job.sh"
source "$here/rules.sh"

read -r _ _ _ _ _ session _ </proc/self/stat
# The guard ends whatever is left of it; but a prompt on this very machine shares its user's session.
[[ $job_shell == terminal && $session != "$$" ]] || echo "$session" >>"$here/sessions"
echo "$$ $PPID" >>"$here/parents"  # by the second Apptainer names what --sharens leaves when it is killed

drop=()
while IFS= read -r -d '' pair; do
  name=${pair%%=*}
  if dropped "$context:$name"; then drop+=(-u "$name"); fi
done </proc/self/environ
if [[ $context != *-bare && -d $here/steady ]]; then PATH=$here/steady:$PATH; fi
exec env "${drop[@]}" "MNRUN_JOB_ID=$job_id" "TMPDIR=$place" "$@"

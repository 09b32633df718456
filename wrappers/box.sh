#!/bin/bash
# `box.sh CONTEXT PLACE WORDS…` runs WORDS, a container runtime's, as a process of the job: without
# what leaks from the host and its scheduler in this context (launcher/environment.py has the
# rules), with the job's mark, and with PLACE in the node directory as its own TMPDIR.
set -euo pipefail
mnrun_here=$(cd "${0%/*}" && pwd)
mnrun_context=$1 mnrun_place=$mnrun_here/$2
shift 2
source "$mnrun_here/job.sh"
source "$mnrun_here/rules.sh"

read -r _ _ _ _ _ mnrun_session _ </proc/self/stat
# The guard ends whatever is left of it; but a prompt on this very machine shares its user's session.
[[ $mnrun_shell == terminal && $mnrun_session != "$$" ]] || echo "$mnrun_session" >>"$mnrun_here/sessions"
if [[ $mnrun_place == */hold ]]; then # by the second of them Apptainer names what others join
  echo "$$ $PPID" >"$mnrun_here/holder"
  source "$mnrun_here/sweep.sh"
  unname "$PPID" # of one long ago, before the node lost its power
fi

at_least() { # NAME LETTER NUMBER: the soft limit, as far as the hard one lets it, where nobody says (--ulimit)
  local now
  now=$(ulimit -S "-$2")
  if [[ " $mnrun_limited " == *" $1 "* || $now == unlimited ]] || ((now >= $3)); then return; fi
  ulimit -S "-$2" "$3" 2>/dev/null || ulimit -S "-$2" hard
}
[[ " $mnrun_limited " == *" memlock "* ]] || ulimit -S -l hard
at_least stack s 65536
at_least nofile n 65536 # more, and older programs take long to close them one by one

mnrun_drop=()
while IFS= read -r -d '' mnrun_pair; do
  mnrun_name=${mnrun_pair%%=*}
  if dropped "$mnrun_context=$mnrun_name"; then mnrun_drop+=(-u "$mnrun_name"); fi
done </proc/self/environ
if [[ $mnrun_context != *-bare && -d $mnrun_here/steady ]]; then PATH=$mnrun_here/steady:$PATH; fi
exec env "${mnrun_drop[@]}" "MNRUN_JOB_ID=$mnrun_id" "TMPDIR=$mnrun_place" "$@"

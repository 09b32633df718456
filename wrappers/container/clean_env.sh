#!/bin/bash
# shellcheck disable=SC2154  # into.sh's
# `CONTEXT PLACE WORDS…`, by into.sh: runs WORDS, a container runtime's, as a process of the job: without
# what leaks from the host and its scheduler in this context (launcher/mnrun/environment.py has the
# rules), with the job's mark, and with PLACE in the node directory as its own TMPDIR.
# WORDS begin in the job's directory, so that adverbs are read from there; where there is no container to set another,
# rank.sh goes back to where its starter had put it.
set -euo pipefail
mnrun_context=$1 mnrun_place=$mnrun_here/$2
shift 2
source ./job.sh
source ./rules.sh
source ./home.sh
source ./processes.sh

# The guard ends whatever is left of it; but a prompt on this very machine shares its user's session.
session
[[ $mnrun_shell == terminal && ${REPLY% *} != "$$" ]] || echo "$REPLY" >>sessions
if [[ $mnrun_place == */hold ]]; then # by the second of them Apptainer names what others join
  echo "$$ $PPID" >holder
  source ./sweep.sh
  unname "$PPID" # of one long ago, before the node lost its power
fi

# where srun's PMIx leaves a directory when it is killed
if [[ $mnrun_context == srun* && ${SLURM_STEP_ID-} =~ ^[0-9]+$ ]]; then echo "$SLURM_STEP_ID" >pmix; fi

# In a /tmp that Slurm has given the job for itself (engines.sh: own_tmp), PMIx's shared memory of srun's is not found by the ranks.
if [[ $mnrun_context == srun* && ${SLURM_JOB_ID-} =~ ^[0-9]+$ && -z ${PMIX_MCA_gds-} ]] &&
  grep -qE "/$SLURM_JOB_ID/\.$SLURM_JOB_ID(/_tmp)? /tmp " /proc/self/mountinfo; then
  export PMIX_MCA_gds=hash
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
if [[ $mnrun_context == *-bare ]]; then
  mnrun_drop+=("mnrun_from=$mnrun_back")
elif [[ -d steady ]]; then
  PATH=$mnrun_here/steady:$PATH
fi
exec env "${mnrun_drop[@]}" "MNRUN_JOB_ID=$mnrun_id" "TMPDIR=$mnrun_place" "$@"

# shellcheck shell=bash disable=SC2034  # clean_env.sh's adverbs read mnrun_shared
# clean_env.sh sources this on the node, in the job's directory, for a rank that srun has started.
if [[ ${SLURM_STEP_ID-} =~ ^[0-9]+$ ]]; then
  mnrun_name=$SLURM_JOB_ID.$SLURM_STEP_ID
  # A killed srun leaves one.
  printf '%s\n' "/tmp/spmix_appdir_${EUID}_$mnrun_name" "/tmp/spmix_appdir_$mnrun_name" >step.places
fi
if [[ -n ${PMIX_SERVER_TMPDIR-} && -n ${SLURM_STEP_ID-} ]]; then
  # srun's PMIx shares memory with the ranks in these directories.
  mnrun_shared=("$PMIX_SERVER_TMPDIR" "${PMIX_SYSTEM_TMPDIR:-/tmp}"/spmix_appdir_*"$SLURM_JOB_ID.$SLURM_STEP_ID")
fi
# Slurm may give the job a /tmp of its own (engines.sh, own_tmp). There the ranks do not find that shared memory.
if [[ ${SLURM_JOB_ID-} =~ ^[0-9]+$ && -z ${PMIX_MCA_gds-} ]]; then
  IFS= read -rd '' mnrun_mounts </proc/self/mountinfo || true # the file has no NUL
  [[ ! $mnrun_mounts =~ /$SLURM_JOB_ID/\.$SLURM_JOB_ID(/_tmp)?' /tmp ' ]] || export PMIX_MCA_gds=hash
fi

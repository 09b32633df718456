# shellcheck shell=sh disable=SC2034  # rank.sh and place.sh read these
# rank.sh sources this as step.env, for a rank that srun has started. It tells the rank's place in the step, which an
# MPI may tell otherwise, and the number of ranks on its node.
mnrun_step_rank=${SLURM_PROCID-} mnrun_step_size=${SLURM_NTASKS-1} mnrun_step_local=${SLURM_LOCALID-0}
mnrun_step_each='' mnrun_count=0
IFS=,
for mnrun_word in ${SLURM_STEP_TASKS_PER_NODE-}; do # 2(x3),1
  case $mnrun_word in
    *'(x'*) mnrun_times=${mnrun_word#*x} mnrun_times=${mnrun_times%)} ;;
    *) mnrun_times=1 ;;
  esac
  mnrun_count=$((mnrun_count + mnrun_times))
  if [ "${SLURM_NODEID:-0}" -lt "$mnrun_count" ]; then mnrun_step_each=${mnrun_word%%'('*} && break; fi
done
unset IFS

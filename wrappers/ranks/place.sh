# shellcheck shell=sh disable=SC1091,SC2154  # rank.sh and job.sh
# rank.sh sources this. It tells the rank its place among all ranks, in the words of PyTorch and of Slurm.
# The MPI has started the rank and told it its place already. So none takes itself for a rank of srun's by these.
# A variable stays unset where the starter does not tell.

# The number of ranks on this node.
case $mnrun_starter in
  env) mnrun_each=$LOCAL_WORLD_SIZE ;;
  torchrun) mnrun_each=1 ;;
  srun)
    mnrun_each='' mnrun_count=0
    IFS=,
    for mnrun_word in ${SLURM_STEP_TASKS_PER_NODE-}; do # 2(x3),1
      case $mnrun_word in
        *'(x'*) mnrun_times=${mnrun_word#*x} mnrun_times=${mnrun_times%)} ;;
        *) mnrun_times=1 ;;
      esac
      mnrun_count=$((mnrun_count + mnrun_times))
      if [ "${SLURM_NODEID:-0}" -lt "$mnrun_count" ]; then mnrun_each=${mnrun_word%%'('*} && break; fi
    done
    unset IFS ;;
  *) mnrun_each=${OMPI_COMM_WORLD_LOCAL_SIZE-${MPI_LOCALNRANKS-${MV2_COMM_WORLD_LOCAL_SIZE-}}} ;;
esac
read -r mnrun_index <"$mnrun_here/index"

case $mnrun_starter in
  env | torchrun) ;; # start_node.sh has set these
  *)
    if [ -n "$mnrun_told" ]; then
      export RANK="$mnrun_rank" WORLD_SIZE="$mnrun_size" LOCAL_RANK="$mnrun_local" NODE_RANK="$mnrun_index"
      [ -z "$mnrun_each" ] || export LOCAL_WORLD_SIZE="$mnrun_each"
    fi
    if [ -s "$mnrun_here/master" ]; then # not where rank 0 may be on another node than the first
      read -r MASTER_ADDR MASTER_PORT <"$mnrun_here/master"
      export MASTER_ADDR MASTER_PORT
    fi ;;
esac

if [ -e "$mnrun_here/slurm.env" ] && [ -n "$mnrun_told" ]; then # a job of Slurm's, and ranks that srun does not start
  . "$mnrun_here/slurm.env"
  export SLURM_PROCID="$mnrun_rank" SLURM_LOCALID="$mnrun_local" SLURM_NODEID="$mnrun_index"
  if [ "$SLURM_NTASKS" != "$mnrun_size" ]; then # by an option of mpirun's
    export SLURM_NTASKS="$mnrun_size" SLURM_NPROCS="$mnrun_size" SLURM_STEP_NUM_TASKS="$mnrun_size"
    unset SLURM_TASKS_PER_NODE SLURM_STEP_TASKS_PER_NODE
  fi
  if [ "${SLURM_NTASKS_PER_NODE-}" != "$mnrun_each" ]; then unset SLURM_NTASKS_PER_NODE; fi
fi

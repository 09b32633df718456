# shellcheck shell=sh disable=SC1091,SC2154  # rank.sh and job.sh
# rank.sh sources this. It tells the rank its place among all ranks, in the words of PyTorch and of Slurm. The MPI knows
# its own already, so none takes itself for a rank of srun's by these.

# The number of ranks on this node.
case $mnrun_starter in
  env) mnrun_each=$LOCAL_WORLD_SIZE ;;
  torchrun | ray) mnrun_each=1 ;;
  scheduler) mnrun_each=$mnrun_step_each ;;
  *) mnrun_each=${OMPI_COMM_WORLD_LOCAL_SIZE-${MPI_LOCALNRANKS-${MV2_COMM_WORLD_LOCAL_SIZE-}}} ;;
esac
read -r mnrun_index <"$mnrun_here/index"

case $mnrun_starter in
  env | torchrun | ray) ;; # start_node.sh has set these
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

# A scheduler's job, and ranks that the scheduler does not start itself.
# shellcheck source=/dev/null
if [ -e "$mnrun_here/scheduler.env" ] && [ -n "$mnrun_told" ]; then . "$mnrun_here/scheduler.env"; fi

#!/bin/bash
# resnet50: 4 nodes x 4 ranks, inside-out, apptainer
# Written by mnrun 0.1.0 on 2026-01-01 by: mnrun plan job.toml --signal B:USR1@120
# You may edit this script, and submit it with sbatch. The first node of the job needs mnrun at the path below.
#SBATCH --job-name=resnet50                 # job.toml line 1
#SBATCH --partition=gpu                     # profile cluster1
#SBATCH --account=physics                   # SBATCH_ACCOUNT
#SBATCH --nodes=4                           # job.toml line 17
#SBATCH --ntasks-per-node=4                 # job.toml line 18
#SBATCH --cpus-per-task=2                   # job.toml line 19
#SBATCH --gpus-per-node=4                   # profile cluster1
#SBATCH --time=12:00:00                     # job.toml line 20
#SBATCH --output=/home/alice/run/%x-%j.out  # job.toml line 4
#SBATCH --signal=B:USR1@120                 # command line
#SBATCH --switches=1@30:00                  # job.toml line 32

trap 'echo "mnrun: failed with $?: $(sed -n "${LINENO}p" "$0")" >&2; exit 122' ERR
type module >/dev/null 2>&1 || [ ! -r /etc/profile ] || . /etc/profile >/dev/null 2>&1 || :  # where a login shell has it
module load apptainer/1.3.4  # profile cluster1
module load cuda/12.4        # job.toml line 28
# setup: job.toml line 29
ulimit -s unlimited
trap - ERR

mnrun_options=(
  --mode=inside-out                             # job.toml line 12
  --image=/scratch/alice/img/pytorch-24.10.sif  # job.toml line 7
  --ports=41000-41999                           # profile cluster1
  --start-timeout=180s                          # job.toml line 14
  --job-dir=/scratch/alice/.mnrun/jobs          # profile cluster1
  --bind=/datasets/imagenet:/data:ro            # job.toml line 8
  --bind=/home/alice/code:/home/alice/code      # job.toml line 8
  --chdir=/home/alice/run                       # job.toml line 3
  --container-args=--writable-tmpfs             # job.toml line 9
  --mpi-args=--map-by                           # job.toml line 13
  --mpi-args=slot                               # job.toml line 13
  --env=WANDB_API_KEY                           # job.toml line 23; its value is the job's own
  --env='!LD_DEBUG'                             # taken away: job.toml line 25
)
mnrun_variables=( # they go through a pipe, since everybody can read a command line
  NCCL_SOCKET_IFNAME=ib0  # carries the route between the nodes (profile cluster1)
  OMP_NUM_THREADS=2       # job.toml line 24
)
exec {mnrun_pipe}< <(printf '%s\0' "${mnrun_variables[@]}" &)
wait "$!" # mnrun, which this script becomes, knows no process of it
shopt -s execfail # the script goes on if mnrun cannot be started
exec /usr/local/bin/mnrun run --as-given "${mnrun_options[@]}" --env-file="/dev/fd/$mnrun_pipe" -- python train.py --lr 0.1
echo "mnrun: cannot start /usr/local/bin/mnrun on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122

#!/bin/bash
# python: 4 nodes x 4 ranks, inside-out (mpirun runs inside the image), apptainer
# Written by mnrun 0.1.0 from /home/alice/run/job.toml; `mnrun plan` shows the same commands.
#SBATCH --job-name=python    # the program's name
#SBATCH --partition=main     # job.toml line 14
#SBATCH --nodes=4            # job.toml line 15
#SBATCH --ntasks-per-node=4  # job.toml line 16
#SBATCH --cpus-per-task=2    # job.toml line 18
#SBATCH --gpus-per-node=4    # job.toml line 17
#SBATCH --mem-per-gpu=3G     # command line
#SBATCH --time=12:00:00      # job.toml line 19
#SBATCH --output=%x-%j.out   # built-in
#SBATCH --signal=B:USR1@120  # command line
#SBATCH --requeue            # job.toml line 29
#SBATCH --switches=1@30:00   # job.toml line 30
# shellcheck disable=SC1091,SC2016,SC2034,SC2154  # walk.sh uses what is set here, and sets what is used

mnrun_stage=/home/alice/.mnrun/jobs/stage/20260101-090000-xxxxxx  # our wrappers; absolute, since slurmd runs a copy of this file
mnrun_jobs=/home/alice/.mnrun/jobs    # records: begun, log, outcome
source "$mnrun_stage/enter.sh"
trap 'mnrun_failed_at "$?" "$LINENO" "$BASH_COMMAND" "${BASH_SOURCE[0]}"' ERR
type module >/dev/null 2>&1 || [ ! -r /etc/profile ] || . /etc/profile >/dev/null 2>&1 || :  # where a login shell has it
module load apptainer/1.3.4  # job.toml line 25
module load cuda/12.4        # job.toml line 25
ulimit -l unlimited          # job.toml line 26
# setup: command line
ulimit -s unlimited
trap - ERR
set -euo pipefail  # not before: modules are not all safe under -u
mnrun_inherited=(  # of every rank, with the values that they have here; before any name of ours is set
  "WANDB_API_KEY${WANDB_API_KEY+=$WANDB_API_KEY}"  # job.toml line 22
)
mnrun_ranks=(4 4 4 4)  # on each node
mnrun_variables=(  # of every rank
  PYTHONNOUSERSITE=1      # home is mounted: ~/.local must not shadow the image's packages
  'GREETING=it'"'"'s $5'  # command line
)
mnrun_inside='1'  # 1: inside-out
mnrun_connect='auto'  # how its mpirun reaches the other nodes; auto: by ssh where all have it, else by the pipe
mnrun_counted='1'  # 1: it is an error if a rank never came, whatever mpirun says
mnrun_split=''  # each rank's output goes into files here
source "$mnrun_stage/walk.sh"

begin  # $mnrun_here is the job's directory on each node, $mnrun_head the first of $mnrun_nodes; $mnrun_boot begins there

# 1 serve: a guard on every node, whose input, the lease, lasts as long as this shell
serve srun --quiet --overlap --nodes=4 --ntasks=4 --ntasks-per-node=1 "--nodelist=$mnrun_nodes" --gres=gpu:4 --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=all --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_boot" "$mnrun_here" bash -p -c "$mnrun_into" "$mnrun_here" box.sh inside serve bash -p ./gpus.sh apptainer -q exec --pid --bind "$mnrun_here:$mnrun_here" --bind "$mnrun_here/etc.passwd:/etc/passwd" --bind "$mnrun_here/etc.group:/etc/group" --bind /scratch/alice/rn50:/scratch/alice/rn50 --bind /datasets:/data:ro --pwd /scratch/alice/rn50 --writable-tmpfs /images/pytorch.sif sh -c "$mnrun_into" "$mnrun_here" node.sh
# 2 run: starts now, and waits on its node for go
run srun --quiet --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 "--nodelist=$mnrun_head" --gres=gpu:4 --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=0 --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_until_go" "$mnrun_here" bash -p -c "$mnrun_into" "$mnrun_here" box.sh inside tmp bash -p ./gpus.sh apptainer -q exec --pid --bind "$mnrun_here:$mnrun_here" --bind "$mnrun_here/etc.passwd:/etc/passwd" --bind "$mnrun_here/etc.group:/etc/group" --bind /scratch/alice/rn50:/scratch/alice/rn50 --bind /datasets:/data:ro --pwd /scratch/alice/rn50 --writable-tmpfs /images/pytorch.sif sh -c "$mnrun_into" "$mnrun_here" go.sh mpirun -n 16 --map-by slot sh "$mnrun_here/rank.sh" python train.py --lr 0.1 'two words' '$HOME' ''
# 3 await: every node is ready, or who is not, and why
await 120
go
# 4 stop: the lease ends, every guard ends what is left; these words only where one was killed
finish srun --quiet --overlap --nodes=4 --ntasks=4 --ntasks-per-node=1 "--nodelist=$mnrun_nodes" --gres=gpu:4 --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=all --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_into" "$mnrun_here" stop.sh

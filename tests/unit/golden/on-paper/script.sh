#!/bin/bash
# app: 3 nodes x 1-2 ranks, outside-in (the host's srun starts the ranks), apptainer
# Written by mnrun 0.1.0 from /home/alice/run/job.toml; `mnrun plan` shows the same commands.
#SBATCH --job-name=app      # the program's name
#SBATCH --nodes=3           # job.toml line 7
#SBATCH --ntasks=5          # job.toml line 8
#SBATCH --gres=gpu:2        # job.toml line 9
#SBATCH --output=%x-%j.out  # built-in
# shellcheck disable=SC1091,SC2016,SC2034,SC2154  # walk.sh uses what is set here, and sets what is used

mnrun_stage=/home/alice/.mnrun/jobs/stage/20260101-090000-xxxxxx  # our wrappers; absolute, since slurmd runs a copy of this file
mnrun_jobs=/home/alice/.mnrun/jobs    # records: begun, log, outcome
source "$mnrun_stage/enter.sh"
set -euo pipefail  # not before: modules are not all safe under -u
mnrun_inherited=()
mnrun_ranks=(2 2 1)  # on each node
mnrun_variables=(  # of every rank
  PYTHONNOUSERSITE=1  # home is mounted: ~/.local must not shadow the image's packages
)
mnrun_inside=''  # 1: inside-out
mnrun_connect=''  # how its mpirun reaches the other nodes; auto: by ssh where all have it, else by the pipe
mnrun_counted='1'  # 1: it is an error if a rank never came, whatever mpirun says
mnrun_split=''  # each rank's output goes into files here
source "$mnrun_stage/walk.sh"

begin  # $mnrun_here is the job's directory on each node, $mnrun_head the first of $mnrun_nodes; $mnrun_boot begins there
export SLURM_PMIX_FENCE=ring  # mnrun: with Slurm's other fence Open MPI's start fails now and then

# 1 serve: a guard on every node, whose input, the lease, lasts as long as this shell
serve srun --quiet --overlap --nodes=3 --ntasks=3 --ntasks-per-node=1 "--nodelist=$mnrun_nodes" --gres=gpu:2 --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=all --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_boot" "$mnrun_here"
# 2 await: every node is ready, or who is not, and why
await 120
# 3 ask: what the image's MPI speaks with srun; nobody has said it
speak srun --quiet --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 "--nodelist=$mnrun_head" --gres=gpu:2 --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=0 --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_into" "$mnrun_here" box.sh srun tmp bash -p ./gpus.sh apptainer -q exec --bind "$mnrun_here:$mnrun_here" --pwd /home/alice/run /home/alice/run/app.sif sh -c "$mnrun_into" "$mnrun_here" speaks.sh
go
# 4 run
run srun --quiet --overlap --ntasks=5 --distribution=arbitrary "--nodelist=$mnrun_each" --gres=gpu:2 --mem=0 --cpu-bind=none --gpu-bind=none "--mpi=$mnrun_pmi" --input=0 --export=ALL --chdir=/tmp --kill-on-bad-exit=1 --wait=60 bash -p -c "$mnrun_into" "$mnrun_here" box.sh srun tmp bash -p ./gpus.sh apptainer -q exec --bind "$mnrun_here:$mnrun_here" --pwd /home/alice/run /home/alice/run/app.sif sh -c "$mnrun_into" "$mnrun_here" rank.sh ./app
# 5 stop: the lease ends, every guard ends what is left; these words only where one was killed
finish srun --quiet --overlap --nodes=3 --ntasks=3 --ntasks-per-node=1 "--nodelist=$mnrun_nodes" --gres=gpu:2 --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=all --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_into" "$mnrun_here" stop.sh

#!/bin/bash
# reco: 2 nodes x 2 ranks, outside-in (the host's mpirun starts the ranks), apptainer
# Written by mnrun 0.1.0 from /home/alice/run/job.toml; `mnrun plan` shows the same commands.
#SBATCH --job-name=reco                          # job.toml line 2
#SBATCH --account=physics                        # job.toml line 15
#SBATCH --qos=high                               # job.toml line 16
#SBATCH --reservation=beamtime                   # job.toml line 17
#SBATCH --constraint=ib                          # job.toml line 18
#SBATCH --licenses=app:2                         # job.toml line 19
#SBATCH '--nodelist=node[01-02]'                 # job.toml line 20
#SBATCH --exclude=node03                         # job.toml line 21
#SBATCH --exclusive                              # job.toml line 22
#SBATCH --nodes=2                                # job.toml line 23
#SBATCH --ntasks-per-node=2                      # one per GPU asked for
#SBATCH --gpus-per-node=2                        # --gpus 4 (job.toml line 24) on 2 nodes
#SBATCH --mem=8G                                 # job.toml line 25
#SBATCH --time=2:00:00                           # job.toml line 26
#SBATCH --output=/home/alice/run/logs/%A_%a.out  # job.toml line 4
#SBATCH --error=/home/alice/run/logs/%A_%a.err   # job.toml line 5
#SBATCH --mail-type=END,FAIL                     # job.toml line 29
#SBATCH --mail-user=alice@example.org            # job.toml line 30
#SBATCH --dependency=singleton                   # job.toml line 31
#SBATCH --array=0-3%2                            # job.toml line 32
#SBATCH --signal=B:USR1@120                      # job.toml line 33
#SBATCH --no-requeue                             # job.toml line 34
#SBATCH --export=ALL,RUN=2026                    # job.toml line 35
# shellcheck disable=SC1091,SC2016,SC2034,SC2154  # walk.sh uses what is set here, and sets what is used

mnrun_stage=/home/alice/.mnrun/jobs/stage/20260101-090000-xxxxxx  # our wrappers; absolute, since slurmd runs a copy of this file
mnrun_jobs=/home/alice/.mnrun/jobs    # records: begun, log, outcome
source "$mnrun_stage/enter.sh"
set -euo pipefail  # not before: modules are not all safe under -u
mnrun_inherited=()
mnrun_ranks=(2 2)  # on each node
mnrun_variables=(  # of every rank
  PYTHONNOUSERSITE=1  # home is mounted: ~/.local must not shadow the image's packages
)
mnrun_inside=''  # 1: inside-out
mnrun_connect=''  # how its mpirun reaches the other nodes; auto: by ssh where all have it, else by the pipe
mnrun_counted='1'  # 1: it is an error if a rank never came, whatever mpirun says
mnrun_split=''  # each rank's output goes into files here
source "$mnrun_stage/walk.sh"

begin  # $mnrun_here is the job's directory on each node, $mnrun_head the first of $mnrun_nodes; $mnrun_boot begins there

# 1 serve: a guard on every node, whose input, the lease, lasts as long as this shell
serve srun --quiet --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 "--nodelist=$mnrun_nodes" --gres=gpu:2 --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=all --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_boot" "$mnrun_here" bash -p -c "$mnrun_into" "$mnrun_here" box.sh inside hold bash -p ./gpus.sh apptainer -q exec --sharens --bind "$mnrun_here:$mnrun_here" --pwd /home/alice/run /images/reco.sif sh -c "$mnrun_into" "$mnrun_here" hold.sh
# 2 run: starts now, and waits on its node for go
run srun --quiet --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 "--nodelist=$mnrun_head" --gres=gpu:2 --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=0 --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_until_go" "$mnrun_here" sh -c "$mnrun_into" "$mnrun_here" go.sh mpirun -n 4 bash -p -c "$mnrun_into" "$mnrun_here" box.sh mpirun tmp bash -p ./join.sh bash -p ./gpus.sh apptainer -q exec --pwd /home/alice/run instance://sharens_instance_MNRUN_HOLDER sh -c "$mnrun_into" "$mnrun_here" rank.sh ./reco --events 100000
# 3 await: every node is ready, or who is not, and why
await 120
go
# 4 stop: the lease ends, every guard ends what is left; these words only where one was killed
finish srun --quiet --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 "--nodelist=$mnrun_nodes" --gres=gpu:2 --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=all --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_into" "$mnrun_here" stop.sh

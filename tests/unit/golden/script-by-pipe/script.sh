#!/bin/bash
# job.sh: 2 nodes x 2 ranks, inside-out (mpirun runs inside the image), apptainer
# Written by mnrun 0.1.0 from /home/alice/run/job.toml; `mnrun plan` shows the same commands.
#SBATCH --job-name=job.sh    # the program's name
#SBATCH --nodes=2            # job.toml line 7
#SBATCH --ntasks-per-node=2  # job.toml line 8
#SBATCH --output=%x-%j.out   # built-in
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
mnrun_inside='1'  # 1: inside-out
mnrun_connect='pipe'  # how its mpirun reaches the other nodes; auto: by ssh where all have it, else by the pipe
mnrun_counted=''  # 1: it is an error if a rank never came, whatever mpirun says
mnrun_split=/home/alice/run/out  # each rank's output goes into files here
source "$mnrun_stage/walk.sh"

begin  # $mnrun_here is the job's directory on each node, $mnrun_head the first of $mnrun_nodes; $mnrun_boot begins there

# 1 serve: a guard on every node, whose input, the lease, lasts as long as this shell
serve srun --quiet --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 "--nodelist=$mnrun_nodes" --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=all --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_boot" "$mnrun_here" bash -p -c "$mnrun_into" "$mnrun_here" box.sh inside serve bash -p ./gpus.sh apptainer -q exec --pid --bind "$mnrun_here:$mnrun_here" --bind "$mnrun_here/etc.passwd:/etc/passwd" --bind "$mnrun_here/etc.group:/etc/group" --bind /home/alice/run/out:/home/alice/run/out --pwd /home/alice/run /home/alice/run/app.sif sh -c "$mnrun_into" "$mnrun_here" node.sh
# 2 run: starts now, and waits on its node for go
run srun --quiet --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 "--nodelist=$mnrun_head" --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=0 --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_until_go" "$mnrun_here" bash -p -c "$mnrun_into" "$mnrun_here" box.sh inside tmp bash -p ./gpus.sh apptainer -q exec --pid --bind "$mnrun_here:$mnrun_here" --bind "$mnrun_here/etc.passwd:/etc/passwd" --bind "$mnrun_here/etc.group:/etc/group" --bind /home/alice/run/out:/home/alice/run/out --pwd /home/alice/run /home/alice/run/app.sif sh -c "$mnrun_into" "$mnrun_here" go.sh /home/alice/run/bin/job.sh 'two words' '$HOME'
# 3 await: every node is ready, or who is not, and why
await 120
go
# 4 stop: the lease ends, every guard ends what is left; these words only where one was killed
finish srun --quiet --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 "--nodelist=$mnrun_nodes" --mem=0 --cpu-bind=none --gpu-bind=none --mpi=none --input=all --export=ALL --chdir=/tmp --kill-on-bad-exit=0 --wait=0 bash -p -c "$mnrun_into" "$mnrun_here" stop.sh

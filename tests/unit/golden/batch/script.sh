#!/bin/bash
# python: 4 nodes x 4 ranks, apptainer
# Written by mnrun 0.1.0 on 2026-01-01 by: mnrun plan job.toml --mem-per-gpu 3G --signal B:USR1@120 --setup 'ulimit -s unlimited' -x 'GREETING=…' python train.py --lr 0.1 'two words' '$HOME' ''
# You may edit this script, and submit it with sbatch. The first node of the job needs mnrun at the path below.
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

trap 'echo "mnrun: failed with $?: $(sed -n "${LINENO}p" "$0")" >&2; exit 122' ERR
type module >/dev/null 2>&1 || [ ! -r /etc/profile ] || . /etc/profile >/dev/null 2>&1 || :  # where a login shell has it
module load apptainer/1.3.4  # job.toml line 25
module load cuda/12.4        # job.toml line 25
ulimit -l unlimited          # job.toml line 26
# setup: command line
ulimit -s unlimited
trap - ERR

mnrun_options=(
  --image=/images/pytorch.sif        # job.toml line 5
  --bind=/datasets:/data:ro          # job.toml line 6
  --chdir=/scratch/alice/rn50        # job.toml line 7
  --container-args=--writable-tmpfs  # job.toml line 8
  --mpi-args=--map-by                # job.toml line 11
  --mpi-args=slot                    # job.toml line 11
  --ulimit=memlock=unlimited         # job.toml line 26; the ranks keep it
  --env=WANDB_API_KEY                # job.toml line 22; its value is the job's own
)
mnrun_variables=( # they go through a pipe, since everybody can read a command line
  'GREETING=it'"'"'s $5'  # command line
)
exec {mnrun_pipe}< <(printf '%s\0' "${mnrun_variables[@]}" &)
wait "$!" # mnrun, which this script becomes, knows no process of it
shopt -s execfail # the script goes on if mnrun cannot be started
exec /usr/local/bin/mnrun run --as-given "${mnrun_options[@]}" --env-file="/dev/fd/$mnrun_pipe" -- python train.py --lr 0.1 'two words' '$HOME' ''
echo "mnrun: cannot start /usr/local/bin/mnrun on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122

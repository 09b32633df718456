#!/bin/bash
# python3: 2 nodes x 4 ranks, apptainer
# Written by mnrun 0.1.0 on 2026-01-01 by: mnrun plan job.toml
# You may edit this script, and submit it with sbatch. The first node of the job needs mnrun at the path below.
#SBATCH --job-name=python3   # the program's name
#SBATCH --nodes=2            # job.toml line 8
#SBATCH --ntasks-per-node=4  # job.toml line 9
#SBATCH --cpus-per-task=2    # job.toml line 11
#SBATCH --gpus-per-node=4    # job.toml line 10
#SBATCH --time=10:00         # job.toml line 12
#SBATCH --output=%x-%j.out   # built-in

mnrun_options=(
  --image=/home/alice/run/horovod.sif  # job.toml line 5
  --chdir=/home/alice/run              # the current directory
)
shopt -s execfail # the script goes on if mnrun cannot be started
exec /usr/local/bin/mnrun run --as-given "${mnrun_options[@]}" -- python3 digits.py mnist_5k.csv.gz
echo "mnrun: cannot start /usr/local/bin/mnrun on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122

#!/bin/bash
# bandwidth: 2 nodes x 1 rank, inside-out, apptainer
# Written by mnrun 0.1.0 on 2026-01-01 by: mnrun plan job.toml
# You may edit this script, and submit it with sbatch. The first node of the job needs mnrun at the path below.
#SBATCH --job-name=bandwidth  # the program's name
#SBATCH --nodes=2             # job.toml line 11
#SBATCH --ntasks-per-node=1   # job.toml line 12
#SBATCH --gpus-per-node=4     # job.toml line 13
#SBATCH --time=5:00           # job.toml line 14
#SBATCH --output=%x-%j.out    # built-in

mnrun_options=(
  --launcher=env                    # job.toml line 8
  --image=/home/alice/run/cuda.sif  # job.toml line 5
  --chdir=/home/alice/run           # the current directory
)
shopt -s execfail # the script goes on if mnrun cannot be started
exec /usr/local/bin/mnrun run --as-given "${mnrun_options[@]}" -- ./bandwidth
echo "mnrun: cannot start /usr/local/bin/mnrun on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122

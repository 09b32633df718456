#!/bin/bash
# app: 2 nodes x 2 ranks, apptainer
# Written by mnrun 0.1.0 on 2026-01-01 by: mnrun plan job.toml
# You may edit this script, and submit it with sbatch. The first node of the job needs mnrun at the path below.
#SBATCH --job-name=app       # the program's name
#SBATCH --nodes=2            # job.toml line 4
#SBATCH --ntasks=4           # job.toml line 5
#SBATCH --ntasks-per-node=2  # --ntasks (job.toml line 5)
#SBATCH --gpus-per-task=1    # job.toml line 6
#SBATCH --mem-per-cpu=2G     # job.toml line 7
#SBATCH --output=%x-%j.out   # built-in

mnrun_options=(
  --image=/home/alice/run/app.sif  # job.toml line 3
  --chdir=/home/alice/run          # the current directory
)
shopt -s execfail # the script goes on if mnrun cannot be started
exec /usr/local/bin/mnrun run --as-given "${mnrun_options[@]}" -- ./app
echo "mnrun: cannot start /usr/local/bin/mnrun on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122

#!/bin/bash
# app: 3 nodes x 2 + 2 + 1 ranks, outside-in, apptainer
# Written by mnrun 0.1.0 on 2026-01-01 by: mnrun plan job.toml
# You may edit this script, and submit it with sbatch. The first node of the job needs mnrun at the path below.
#SBATCH --job-name=app      # the program's name
#SBATCH --nodes=3           # job.toml line 7
#SBATCH --ntasks=5          # job.toml line 8
#SBATCH --gres=gpu:2        # job.toml line 9
#SBATCH --output=%x-%j.out  # built-in

mnrun_options=(
  --mode=outside-in                # job.toml line 4
  --launcher=srun                  # job.toml line 5
  --container-per=rank             # job.toml line 6
  --image=/home/alice/run/app.sif  # job.toml line 3
  --chdir=/home/alice/run          # the current directory
)
shopt -s execfail # the script goes on if mnrun cannot be started
exec /usr/local/bin/mnrun run --as-given "${mnrun_options[@]}" -- ./app
echo "mnrun: cannot start /usr/local/bin/mnrun on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122

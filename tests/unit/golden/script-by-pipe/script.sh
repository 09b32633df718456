#!/bin/bash
# job.sh: 2 nodes x 2 ranks, apptainer
# Written by mnrun 0.1.0 on 2026-01-01 by: mnrun plan job.toml
# You may edit this script, and submit it with sbatch. The first node of the job needs mnrun at the path below.
#SBATCH --job-name=job.sh    # the program's name
#SBATCH --nodes=2            # job.toml line 7
#SBATCH --ntasks-per-node=2  # job.toml line 8
#SBATCH --output=%x-%j.out   # built-in

mnrun_options=(
  --connect=pipe                      # job.toml line 5
  --image=/home/alice/run/app.sif     # job.toml line 4
  --split-output=/home/alice/run/out  # job.toml line 6
  --chdir=/home/alice/run             # the current directory
)
shopt -s execfail # the script goes on if mnrun cannot be started
exec /usr/local/bin/mnrun run --as-given "${mnrun_options[@]}" --script /home/alice/run/bin/job.sh -- 'two words' '$HOME'
echo "mnrun: cannot start /usr/local/bin/mnrun on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122

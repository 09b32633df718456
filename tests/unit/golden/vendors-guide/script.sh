#!/bin/bash
# sample: 2 nodes x 4 ranks, host
# Written by mnrun 0.1.0 on 2026-01-01 by: mnrun plan job.toml
# You may edit this script, and submit it with sbatch. The first node of the job needs mnrun at the path below.
#SBATCH --job-name=sample    # the program's name
#SBATCH --partition=sxm2     # job.toml line 8
#SBATCH --nodes=2            # job.toml line 5
#SBATCH --ntasks=8           # job.toml line 6
#SBATCH --ntasks-per-node=4  # job.toml line 7
#SBATCH --gres=gpu:4         # job.toml line 9
#SBATCH --output=%x-%j.out   # built-in

trap 'echo "mnrun: failed with $?: $(sed -n "${LINENO}p" "$0")" >&2; exit 122' ERR
type module >/dev/null 2>&1 || [ ! -r /etc/profile ] || . /etc/profile >/dev/null 2>&1 || :  # where a login shell has it
module load shared          # job.toml line 12
module load cuda92/toolkit  # job.toml line 12
trap - ERR

mnrun_options=(
  --runtime=host           # job.toml line 3
  --chdir=/home/alice/run  # the current directory
)
shopt -s execfail # the script goes on if mnrun cannot be started
exec /usr/local/bin/mnrun run --as-given "${mnrun_options[@]}" -- ./sample input.dat
echo "mnrun: cannot start /usr/local/bin/mnrun on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122

#!/bin/bash
# python: 2 nodes x 1 rank, apptainer
# Written by mnrun 0.1.0 on 2026-01-01 by: mnrun plan job.toml
# You may edit this script, and submit it with sbatch. The first node of the job needs mnrun at the path below.
#SBATCH --job-name=python    # the program's name
#SBATCH --nodes=2            # job.toml line 5
#SBATCH --ntasks-per-node=1  # one per node
#SBATCH --output=%x-%j.out   # built-in

mnrun_options=(
  --image=docker://nvcr.io/nvidia/pytorch:24.10-py3  # job.toml line 3
  --pull=always                                      # job.toml line 4
  --chdir=/home/alice/run                            # the current directory
)
shopt -s execfail # the script goes on if mnrun cannot be started
exec /usr/local/bin/mnrun run --as-given "${mnrun_options[@]}" -- python train.py nvcr.io/nvidia/pytorch:24.10-py3
echo "mnrun: cannot start /usr/local/bin/mnrun on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122

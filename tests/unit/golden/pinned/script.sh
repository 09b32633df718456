#!/bin/bash
# app: 2 nodes x 8 ranks, apptainer
# Written by mnrun 0.1.0 on 2026-01-01 by: mnrun plan --profile cluster1 job.toml
# You may edit this script, and submit it with sbatch. The first node of the job needs mnrun at the path below.
#SBATCH --job-name=app       # the program's name
#SBATCH --partition=gpu      # job.toml line 8
#SBATCH --nodes=2            # job.toml line 6
#SBATCH --ntasks-per-node=8  # job.toml line 7
#SBATCH --output=%x-%j.out   # built-in

mnrun_options=(
  --image=/images/app.sif  # job.toml line 4
  --chdir=/home/alice/run  # the current directory
)
mnrun_variables=( # they go through a pipe, since everybody can read a command line
  NCCL_IB_HCA==mlx5_0:1,mlx5_1:1   # active InfiniBand at 200 Gb/s, the nearest to its GPUs (profile cluster1)
  UCX_NET_DEVICES=all              # job.toml line 10
  OMPI_MCA_btl_tcp_if_include=ib0  # carries the route between the nodes (profile cluster1)
)
exec {mnrun_pipe}< <(printf '%s\0' "${mnrun_variables[@]}" &)
wait "$!" # mnrun, which this script becomes, knows no process of it
shopt -s execfail # the script goes on if mnrun cannot be started
exec /apps/mnrun/bin/mnrun run --as-given "${mnrun_options[@]}" --env-file="/dev/fd/$mnrun_pipe" -- ./app
echo "mnrun: cannot start /apps/mnrun/bin/mnrun on $(uname -n): a submitted job needs mnrun on its first node; name another path with --mnrun" >&2
exit 122

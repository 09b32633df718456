#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --account=team_llm
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=04:00:00

set -x
CONTAINER="nvcr.io#nvidia/nemo:24.07"
LUSTRE=/lustre/team
MOUNTS="$LUSTRE/data:/data:ro,$LUSTRE/results:/results"
export NCCL_DEBUG=WARN
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export MASTER_PORT=6000

# The job's own log, and one for each attempt
srun --output=$LUSTRE/results/log-%j.out --mpi=pmix -l \
  --container-image="$CONTAINER" \
  --container-mounts="$MOUNTS" \
  --no-container-mount-home \
  bash -c '
    export RANK=$SLURM_PROCID
    python -u /opt/train.py --config-path=/data/conf \
      trainer.num_nodes=8'

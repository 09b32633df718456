#!/bin/bash
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7

module use /appl/local/containers/ai-modules
module load singularity-AI-bindings
export MASTER_ADDR=$(hostname)
export MASTER_PORT=29400
export WORLD_SIZE=$SLURM_NPROCS
SIF=/appl/local/containers/sif-images/torch.sif
LAUNCHER="singularity exec --bind /flash $SIF"

srun $LAUNCHER bash -c '
  $WITH_CONDA
  RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID python train.py'

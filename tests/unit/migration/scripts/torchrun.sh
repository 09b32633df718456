#!/bin/bash -l
#SBATCH --partition=booster
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=48

module purge
module load Stages/2024 GCC OpenMPI Apptainer-Tools
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
export CUDA_VISIBLE_DEVICES=0,1,2,3
nodes=( $(scontrol show hostnames "$SLURM_JOB_NODELIST") )
nodes_array=($nodes)
head_node=${nodes_array[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
IMAGE=${IMAGE:-$PROJECT/images/torch.sif}

srun --cpu-bind=none apptainer exec --nv --bind "$PROJECT:$PROJECT,/scratch" "$IMAGE" \
  torchrun \
    --nnodes "$SLURM_JOB_NUM_NODES" \
    --nproc_per_node 4 \
    --rdzv_id "$RANDOM" --rdzv_backend c10d --rdzv_endpoint "$head_node_ip:29500" \
    train.py --epochs 10 "$@"

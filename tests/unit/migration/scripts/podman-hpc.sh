#!/bin/bash
#SBATCH -A m1234
#SBATCH -C gpu
#SBATCH -q regular
#SBATCH -N 2

export OMP_NUM_THREADS=1
total=$((SLURM_JOB_NUM_NODES * 4))
srun -n $total --gpus-per-task=1 podman-hpc run --rm --mpi --gpu \
    --volume $PWD/data:/data \
    -e RUN_ID -e MODE=fast \
    sim:2.1 python3 /opt/analyse.py --ranks $total
srun -n $total ./bind_gpu podman-hpc run --rm --gpu sim:2.1 /opt/render

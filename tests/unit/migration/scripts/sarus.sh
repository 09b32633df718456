#!/bin/bash
#SBATCH --constraint=gpu
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2

module load daint-gpu sarus
DATA=$SCRATCH/in
srun sarus run --mpi --mount=type=bind,source=$DATA,destination=/in --mount=type=bind,source=$HOME,destination=$HOME \
    team/horovod:0.28 python /in/bench.py --batch_size 64
srun --environment=./ngc.toml python bench.py

#!/bin/bash
#SBATCH --image=docker:team/abinitio:10.2
#SBATCH --volume="/global/cfs/team:/data"
#SBATCH --qos=regular
#SBATCH --nodes=2
#SBATCH --constraint=cpu

srun -n 128 -c 4 --cpu-bind=cores shifter --module=mpich abinitio -in run.in
srun -n 1 shifter --image=docker:python:3.12 --env=STEP=2 python3 collect.py

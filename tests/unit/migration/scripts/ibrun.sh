#!/bin/bash
#SBATCH -J pi
#SBATCH -p normal
#SBATCH -N 4
#SBATCH -n 192
#SBATCH -t 00:30:00

module load tacc-apptainer
cd $SCRATCH/pi
apptainer exec pi.sif pi-setup --seed 7
time -p ibrun apptainer exec pi.sif pi-mpi 10000000 > pi.out 2>&1

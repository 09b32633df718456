#!/bin/sh
#$ -cwd
#$ -pe mpi 48
#$ -l h_rt=1:00:00
#$ -t 1-3

PARAMETERS=parameters.csv   # one line for each task
module load singularity openmpi

echo "task $SGE_TASK_ID"
SINGULARITYENV_OMP_NUM_THREADS=1 mpirun -np $NSLOTS singularity exec ~/model.img \
  ./model $(sed -n "${SGE_TASK_ID}p" $PARAMETERS)

exit 0

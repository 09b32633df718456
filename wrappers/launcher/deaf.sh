# shellcheck shell=bash
# The launcher runs this as `bash -c DEAF deaf.sh COMMAND…` on the first node of a submitted job, around each srun.
# Slurm sends the signals of a batch job to every process of its script. An srun that receives a TERM kills its tasks.
trap '' HUP INT QUIT TERM USR1 USR2 ALRM
exec "$@"

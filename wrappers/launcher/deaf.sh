# shellcheck shell=bash
# The launcher runs this as `bash -c DEAF deaf.sh COMMAND…` on the first node of a submitted job, around each srun. It
# becomes COMMAND.
# Slurm sends the signals of a batch job to every process of its script. An srun that receives a TERM kills its tasks.
# So the srun ignores them, and mnrun receives them and decides.
trap '' HUP INT QUIT TERM USR1 USR2 ALRM
exec "$@"

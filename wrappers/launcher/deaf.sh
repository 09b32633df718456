#!/bin/bash
# Runs on the first node of a submitted job, around each srun: `deaf.sh COMMAND…`. Slurm sends the signals of a batch job
# to every process of its script, and an srun that hears a TERM kills its tasks. mnrun hears them, and decides.
trap '' HUP INT QUIT TERM USR1 USR2 ALRM
exec "$@"

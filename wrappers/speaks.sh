#!/bin/sh
# Comes by into.sh. What an image's MPI speaks with srun: it says, inside it, what --mpi must be, if that can be told.
. ./mpis.sh
for mnrun_kind in $(mpis | sed 's/ .*//'); do
  case $mnrun_kind in
    openmpi) echo pmix && exit ;;
    mpich | mvapich2 | intelmpi) echo pmi2 && exit ;;
  esac
done

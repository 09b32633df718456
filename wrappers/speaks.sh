#!/bin/sh
# What an image's MPI speaks with srun: `speaks.sh` says, inside it, what --mpi must be, if that can be told.
. "${0%/*}/mpis.sh"
for mnrun_kind in $(mpis | sed 's/ .*//'); do
  case $mnrun_kind in
    openmpi) echo pmix && exit ;;
    mpich | mvapich2 | intelmpi) echo pmi2 && exit ;;
  esac
done

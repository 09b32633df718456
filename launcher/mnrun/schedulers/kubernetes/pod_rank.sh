#!/bin/sh
# Each rank of an MPI's: `pod_rank.sh WORLD EACH COMMAND…`. It becomes COMMAND if the MPI has WORLD ranks, EACH on a node.
# Open MPI and Hydra (MPICH, Intel MPI) set these variables.
size=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-1}} here=${OMPI_COMM_WORLD_LOCAL_SIZE:-${MPI_LOCALNRANKS:-$2}}
if [ "$size" != "$1" ] || [ "$here" != "$2" ]; then
  echo "mnrun: rank ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} of $size, $here on this node, and the job has $1 ranks, $2 on\
 each; mpirun has not read the hostfile: keep PRTE_MCA_prte_default_hostfile of the text, or name the MPI with --mpi" >&2
  exit 1
fi
shift 2
exec "$@"

#!/bin/bash -p
# People start this older script on the nodes, and srun_singularity.sh does the work:
#     salloc -N 2; srun srun_docker.sh --container=IMAGE --script=job.sh
set -euo pipefail
export MNRUN_RUNTIME=docker mnrun_door=srun_docker.sh
exec bash -p "$(dirname "$(readlink -f "$0")")/srun_singularity.sh" "$@"

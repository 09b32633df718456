#!/bin/bash -p
# People start this older script on the nodes, and srun_singularity.sh does the work:
#     pdsh -w $NODES NODES=$NODES pdsh_docker.sh --noderank=%n --container=IMAGE --script=job.sh --workingdir=$PWD
set -euo pipefail
export MNRUN_RUNTIME=docker mnrun_door=pdsh_docker.sh
exec bash -p "$(dirname "$(readlink -f "$0")")/srun_singularity.sh" "$@"

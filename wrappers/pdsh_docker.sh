#!/bin/bash -p
# The older script of this name as people call it; srun_singularity.sh, its sister, does the work:
#     pdsh -w $NODES NODES=$NODES pdsh_docker.sh --noderank=%n --container=IMAGE --script=job.sh --workingdir=$PWD
set -euo pipefail
export MNRUN_RUNTIME=docker mnrun_door=pdsh_docker.sh
exec bash -p "$(dirname "$(readlink -f "$0")")/srun_singularity.sh" "$@"

#!/bin/bash -p
# People start this older script on the nodes, and srun_singularity.sh does the work:
#     pdsh -w $NODES NODES=$NODES pdsh_singularity.sh --noderank=%n --container=app.sif --script=job.sh --workingdir=$PWD
set -euo pipefail
export mnrun_door=pdsh_singularity.sh
exec bash -p "$(dirname "$(readlink -f "$0")")/srun_singularity.sh" "$@"

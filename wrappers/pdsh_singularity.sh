#!/bin/bash -p
# The older script of this name as people call it; srun_singularity.sh, its sister, does the work:
#     pdsh -w $NODES NODES=$NODES pdsh_singularity.sh --noderank=%n --container=app.sif --script=job.sh --workingdir=$PWD
set -euo pipefail
export mnrun_door=pdsh_singularity.sh
exec bash -p "$(dirname "$(readlink -f "$0")")/srun_singularity.sh" "$@"

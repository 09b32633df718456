#!/bin/bash -p
# The older script of this name as people call it; srun_singularity.sh, its sister, does the work:
#     salloc -N 2; srun srun_docker.sh --container=IMAGE --script=job.sh
set -euo pipefail
export MNRUN_RUNTIME=docker mnrun_door=srun_docker.sh
exec bash -p "$(dirname "$(readlink -f "$0")")/srun_singularity.sh" "$@"

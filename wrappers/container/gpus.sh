#!/bin/bash
# `gpus.sh WORDS…` runs WORDS, a container runtime's, with the node's NVIDIA driver where there is
# one, and they are not to be hidden. Which GPUs the scheduler granted is in CUDA_VISIBLE_DEVICES and goes along by itself.
set -euo pipefail
source "${0%/*}/job.sh"
source "${0%/*}/mps.sh"
if [[ -n $mnrun_no_gpu ]]; then
  unset APPTAINER_NV SINGULARITY_NV
  export APPTAINER_NO_NV=1 SINGULARITY_NO_NV=1 # whatever the site's own settings say
elif [[ -e /proc/driver/nvidia/version ]]; then
  export APPTAINER_NV=1 SINGULARITY_NV=1 # the same as --nv
fi
while read -r mnrun_dir; do
  export APPTAINER_BIND="${APPTAINER_BIND:+$APPTAINER_BIND,}$mnrun_dir" SINGULARITY_BIND="${SINGULARITY_BIND:+$SINGULARITY_BIND,}$mnrun_dir"
done < <(mps)
exec "$@"

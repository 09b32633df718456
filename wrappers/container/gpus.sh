#!/bin/bash
# `gpus.sh WORDS…` runs on the node, in front of WORDS of a container runtime. It becomes WORDS, with the node's NVIDIA
# driver where the node has one and the user does not hide it.
# CUDA_VISIBLE_DEVICES holds the GPUs that the scheduler has granted. It goes along by itself.
set -euo pipefail
source "${0%/*}/job.sh"
source "${0%/*}/mps.sh"
if [[ -n $mnrun_no_gpu ]]; then
  unset APPTAINER_NV SINGULARITY_NV
  export APPTAINER_NO_NV=1 SINGULARITY_NO_NV=1 # this overrides the site's own settings
elif [[ -e /proc/driver/nvidia/version ]]; then
  export APPTAINER_NV=1 SINGULARITY_NV=1 # this is the same as --nv
fi
mps
for mnrun_dir in "${mnrun_mps[@]}"; do
  export APPTAINER_BIND="${APPTAINER_BIND:+$APPTAINER_BIND,}$mnrun_dir" SINGULARITY_BIND="${SINGULARITY_BIND:+$SINGULARITY_BIND,}$mnrun_dir"
done
exec "$@"

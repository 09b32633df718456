#!/bin/bash
# `gpus.sh WORDS…` runs WORDS, a container runtime's, with the node's NVIDIA driver where there is
# one. Which GPUs the scheduler granted is in CUDA_VISIBLE_DEVICES and goes along by itself.
set -euo pipefail
if [[ -e /proc/driver/nvidia/version ]]; then
  export APPTAINER_NV=1 SINGULARITY_NV=1 # the same as --nv
fi
exec "$@"

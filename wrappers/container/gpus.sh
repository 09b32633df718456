# shellcheck shell=bash
# clean_env.sh sources this adverb for Apptainer and Singularity. It gives the container the node's NVIDIA driver, and
# leaves out the home directory where the node has none. CUDA_VISIBLE_DEVICES goes along by itself.
source ./mps.sh
if [[ -n $mnrun_home && ! -e $mnrun_home ]]; then # Apptainer skips a home that a node lacks, but no other mount
  mnrun_words=()
  while (($#)) && [[ $1 != --bind || ${2-} != "$mnrun_home:$mnrun_home" ]]; do
    mnrun_words+=("$1")
    shift
  done
  (($# == 0)) || shift 2 # later ones are words of the program
  set -- "${mnrun_words[@]}" "$@"
fi
# Apptainer also mounts the directory in which it starts. The plan has all that the container gets.
export APPTAINER_NO_MOUNT="${APPTAINER_NO_MOUNT:+$APPTAINER_NO_MOUNT,}cwd" \
    SINGULARITY_NO_MOUNT="${SINGULARITY_NO_MOUNT:+$SINGULARITY_NO_MOUNT,}cwd"
if [[ -n $mnrun_no_gpu ]]; then
  unset APPTAINER_NV SINGULARITY_NV
  export APPTAINER_NO_NV=1 SINGULARITY_NO_NV=1 # this overrides the site's own settings
elif [[ -e /proc/driver/nvidia/version ]]; then
  export APPTAINER_NV=1 SINGULARITY_NV=1 # this is the same as --nv
fi
mps
for mnrun_dir in "${mnrun_mps[@]}"; do
  export APPTAINER_BIND="${APPTAINER_BIND:+$APPTAINER_BIND,}$mnrun_dir" \
    SINGULARITY_BIND="${SINGULARITY_BIND:+$SINGULARITY_BIND,}$mnrun_dir"
done

# shellcheck shell=bash
# An MPS daemon of this node's, which a container must find where it is: its variables go along by themselves. Sourced.

mps() { # the directories of its pipes and its log, a line each
  local dir pipes=${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}
  [[ -e $pipes/control && -z $mnrun_no_gpu ]] || return 0
  # where nobody has named it, it is anybody's who was first
  [[ -n ${CUDA_MPS_PIPE_DIRECTORY-} || -O $pipes || $(stat -Lc %u -- "$pipes") == 0 ]] || return 0
  for dir in "$pipes" "${CUDA_MPS_LOG_DIRECTORY-}"; do
    if [[ $dir == /* && $dir != *[,:]* && -d $dir ]]; then echo "$dir"; fi # runtimes cannot mount other names
  done
}

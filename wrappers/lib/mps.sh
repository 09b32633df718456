# shellcheck shell=bash
# Wrappers of containers source this file on the node. The variables of MPS go along by themselves.

mps() { # Set mnrun_mps to the directories of the daemon's pipes and log, if there is a daemon
  local dir pipes=${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}
  mnrun_mps=()
  [[ -e $pipes/control && -z $mnrun_no_gpu ]] || return 0
  # Without the variable, the place may belong to any user who made it first. A link of theirs may lead to yours.
  [[ -n ${CUDA_MPS_PIPE_DIRECTORY-} || ! -L $pipes && (-O $pipes || $(stat -c %u -- "$pipes") == 0) ]] || return 0
  for dir in "$pipes" "${CUDA_MPS_LOG_DIRECTORY-}"; do
    if [[ $dir == /* && $dir != *[,:]* && -d $dir ]]; then mnrun_mps+=("$dir"); fi # runtimes cannot mount other names
  done
}

#!/bin/bash
# `engine.sh docker|podman run WORDS…` starts a container with what only this node knows, or only this
# process: user and groups, limits, devices, GPUs, and the variables of the job or of this very rank.
set -euo pipefail
mnrun_here=$(cd "${0%/*}" && pwd)
cd "$mnrun_here"
source ./job.sh
source ./rules.sh
source ./engines.sh
source ./mps.sh
shift 2
flags=(--name "mnrun.$mnrun_id.$$")

# Values do not stand on a command line, which everybody may read; the image's own variables stay as they are.
while IFS= read -r -d '' pair; do
  name=${pair%%=*}
  if passed "$name"; then flags+=(-e "$name"); fi
done </proc/self/environ

if [[ -n ${PMIX_SERVER_TMPDIR-} && -n ${SLURM_STEP_ID-} ]]; then # where srun's PMIx shares memory with the ranks
  for dir in "$PMIX_SERVER_TMPDIR" "${PMIX_SYSTEM_TMPDIR:-/tmp}"/spmix_appdir_*"$SLURM_JOB_ID.$SLURM_STEP_ID"; do
    # others may make such a name
    [[ ! -d $dir || ! -O $dir || -L $dir || $dir == *[,:]* ]] || flags+=(--mount "type=bind,source=$dir,target=$dir")
  done
fi
[[ ! -t 0 ]] || flags+=(--tty)
[[ ! -d $mnrun_infiniband ]] || flags+=("--device=$mnrun_infiniband")
if [[ -d $mnrun_selinux && -z $mnrun_hardened ]]; then
  flags+=(--security-opt=label=disable) # else home and the job's directory cannot be read
fi

user() { # docker's containers would run as root
  local gid
  if [[ -e rootless ]]; then # who is root inside is the user outside
    flags+=(--user=0:0)
    return
  fi
  flags+=("--user=$(id -u):$(id -g)")
  for gid in $(id -G); do flags+=("--group-add=$gid"); done
}

limits() { # memory that can be locked, for InfiniBand, and stack: as far as dockerd may
  local pid locked
  pid=$(cat "$mnrun_dockerd" 2>/dev/null || pgrep -ox dockerd) || return 0
  [[ -r /proc/$pid/limits ]] || return 0
  if (($(printf %d "0x$(awk '/^CapEff/ { print $2 }' "/proc/$pid/status")") >> 24 & 1)) && [[ ! -e rootless ]]; then
    flags+=(--ulimit=memlock=-1 --ulimit=stack=67108864:-1)
    return
  fi
  locked=$(awk '/^Max locked memory/ { print $5 }' "/proc/$pid/limits")
  flags+=("--ulimit=memlock=${locked/unlimited/-1}")
}

granted() { # the GPUs that are ours here, one to a line by UUID: whoever numbers them, and whatever cgroup hides
  local gpu all
  mapfile -t all < <(nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null | grep -E '^(GPU|MIG)-')
  if [[ -z ${CUDA_VISIBLE_DEVICES+set} ]]; then # nobody said: those that this process sees, as without a container
    if ((${#all[@]})); then printf '%s\n' "${all[@]}"; elif ! command -v nvidia-smi >/dev/null; then echo all; fi
    return
  fi
  for gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do
    case $gpu in
      NoDevFiles | -1) return ;; # none, in Slurm's and in CUDA's words
      *[!0-9]*) echo "$gpu" ;;
      *) echo "${all[gpu]:-$gpu}" ;;
    esac
  done
}

in_cdi() { # GPU: what the node's CDI calls it. Not all that write it know UUIDs; then by the number of its device
  local number=''
  grep -qrsE "name\"?: *[\"']?$1\b" "${mnrun_cdi[@]}" ||
    number=$(nvidia-smi -q 2>/dev/null | awk -F ' *: *' -v "gpu=$1" '/GPU UUID/ { uuid = $2 } /Minor Number/ && uuid == gpu { print $2 }')
  echo "${number:-$1}"
}

gpus() { # in the way that this node has
  local list=() gpu all info=''
  [[ -e $mnrun_driver ]] || return 0
  [[ -n $mnrun_no_gpu ]] || mapfile -t list < <(granted)
  if ((${#list[@]} == 0)); then
    flags+=(-e NVIDIA_VISIBLE_DEVICES=void) # many an image says all, which an engine of NVIDIA's would obey
    return
  fi
  all=$(IFS=, && echo "${list[*]}")
  if [[ ($all == *MIG-* || $mnrun_gpu_bind == closest || -n $(mps)) && $all =~ ^(GPU|MIG)- ]]; then
    flags+=(-e "CUDA_VISIBLE_DEVICES=$all") # instances have no numbers, and the daemon of MPS numbers for itself
  elif [[ -n ${CUDA_VISIBLE_DEVICES-} ]]; then # only these are there, numbered anew
    flags+=(-e "CUDA_VISIBLE_DEVICES=$(seq -s, 0 $((${#list[@]} - 1)))")
  fi
  while read -r gpu; do flags+=(--mount "type=bind,source=$gpu,target=$gpu"); done < <(mps)
  if [[ $mnrun_runtime == docker ]] && command -v nvidia-container-runtime-hook >/dev/null; then
    if [[ $all != all ]]; then all="\"device=$all\""; fi # a word of CSV, with its quotes
    flags+=(--gpus "$all")
    return
  fi
  [[ $mnrun_runtime != docker ]] || info=$(ask 20 info --format '{{json .}}' 2>/dev/null) || true
  if [[ $info == *'"nvidia":'* ]]; then
    flags+=(--runtime=nvidia -e "NVIDIA_VISIBLE_DEVICES=$all" -e NVIDIA_DRIVER_CAPABILITIES=all)
  elif ! grep -qrs 'nvidia.com/gpu' "${mnrun_cdi[@]}"; then
    lacking "$mnrun_runtime cannot give GPUs to containers on this node: install nvidia-container-toolkit, or --no-gpu"
  elif [[ $mnrun_runtime == docker && $info != *'"CDISpecDirs":["'* ]]; then
    lacking "dockerd does not read this node's CDI: \"features\": {\"cdi\": true} in its daemon.json, or --runtime podman"
  else
    for gpu in "${list[@]}"; do flags+=("--device=nvidia.com/gpu=$(in_cdi "$gpu")"); done
  fi
}

lacking() { # WHY
  echo "fail $1" 1<>up
  exit 125
}

if [[ $mnrun_runtime == docker ]]; then
  user
  limits
else
  (umask 077 && mkdir -p "$mnrun_own/user")
  if [[ -n ${PMI_FD-} ]]; then # PMI2's, the one open file that a rank is given
    flags+=("--preserve-fd=$PMI_FD")
  fi
fi
gpus
exec "${mnrun_boxes[@]}" run "${flags[@]}" "$@"

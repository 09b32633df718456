# shellcheck shell=bash disable=SC2154  # job.sh's and into.sh's
# clean_env.sh sources this adverb for the words `docker|podman run WORDS…`. It adds the settings that only this node or
# this process knows.
source ./engines.sh
source ./mps.sh
shift 2
mnrun_flags=(--name "mnrun.$mnrun_id.$$" ${mnrun_posix:+-e POSIXLY_CORRECT})

# All users can read a command line, so it carries names without values. The image's own variables stay unchanged.
while read -r mnrun_name; do
  if passed "$mnrun_name"; then mnrun_flags+=(-e "$mnrun_name"); fi
done < <(compgen -e)

for mnrun_dir in "${mnrun_shared[@]}"; do # the directories that the scheduler's step shares with its ranks
  # Another user may have made such a name.
  [[ ! -d $mnrun_dir || ! -O $mnrun_dir || -L $mnrun_dir || $mnrun_dir == *[,:]* ]] ||
    mnrun_flags+=(--mount "type=bind,source=$mnrun_dir,target=$mnrun_dir")
done
[[ ! -t 0 ]] || mnrun_flags+=(--tty)
[[ ! -d $mnrun_infiniband ]] || mnrun_flags+=("--device=$mnrun_infiniband")
if [[ -d $mnrun_selinux && -z $mnrun_hardened ]]; then
  mnrun_flags+=(--security-opt=label=disable) # otherwise the container cannot read home and the job's directory
fi

user() { # Set the user of the container, because docker would run it as root
  local gid
  if [[ -e rootless ]]; then # root in the container is the user on the node
    mnrun_flags+=(--user=0:0)
    return 0
  fi
  mnrun_flags+=("--user=$(id -u):$(id -g)")
  for gid in $(id -G); do mnrun_flags+=("--group-add=$gid"); done
}

limits() { # Raise the limits of locked memory, for InfiniBand, and of the stack, as far as dockerd may
  local pid locked
  pid=$(cat "$mnrun_dockerd" 2>/dev/null || pgrep -ox -u "0,$EUID" dockerd) || return 0
  [[ -r /proc/$pid/limits ]] || return 0
  if (($(printf %d "0x$(awk '/^CapEff/ { print $2 }' "/proc/$pid/status")") >> 24 & 1)) && [[ ! -e rootless ]]; then
    mnrun_flags+=(--ulimit=memlock=-1 --ulimit=stack=67108864:-1)
    return 0
  fi
  locked=$(awk '/^Max locked memory/ { print $5 }' "/proc/$pid/limits")
  mnrun_flags+=("--ulimit=memlock=${locked/unlimited/-1}")
}

granted() { # Print the GPUs that this job has here, one UUID a line
  # A UUID is valid whichever way the GPUs are numbered, and whatever a cgroup hides.
  local gpu all
  mapfile -t all < <(nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null | grep -E '^(GPU|MIG)-')
  if [[ -z ${CUDA_VISIBLE_DEVICES+set} ]]; then
    # Without a list, the GPUs are those that this process sees, as without a container.
    if ((${#all[@]})); then printf '%s\n' "${all[@]}"; elif ! command -v nvidia-smi >/dev/null; then echo all; fi
    return 0
  fi
  for gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do
    case $gpu in
      NoDevFiles | -1) return 0 ;; # no GPU, in the words of Slurm and of CUDA
      *[!0-9]*) echo "$gpu" ;;
      *) echo "${all[gpu]:-$gpu}" ;;
    esac
  done
}

in_cdi() { # GPU: Print the name of GPU in the node's CDI
  # Some writers of CDI do not know UUIDs. There the name is the minor number of the device.
  local number=''
  grep -qrsE "name\"?: *[\"']?$1\b" "${mnrun_cdi[@]}" ||
    number=$(nvidia-smi -q 2>/dev/null |
      awk -F ' *: *' -v "gpu=$1" '/GPU UUID/ { uuid = $2 } /Minor Number/ && uuid == gpu { print $2 }')
  echo "${number:-$1}"
}

gpus() { # Give the GPUs to the container, in the way that this node supports
  local list=() gpu all info=''
  [[ -e $mnrun_driver ]] || return 0
  [[ -n $mnrun_no_gpu ]] || mapfile -t list < <(granted)
  if ((${#list[@]} == 0)); then
    # Many an image says `all`, which an engine of NVIDIA would obey.
    mnrun_flags+=(-e NVIDIA_VISIBLE_DEVICES=void)
    return 0
  fi
  all=$(IFS=, && echo "${list[*]}")
  mps
  if [[ ($all == *MIG-* || $mnrun_gpu_bind == closest || ${#mnrun_mps[@]} != 0) && $all =~ ^(GPU|MIG)- ]]; then
    # MIG instances have no numbers, and the MPS daemon numbers GPUs by itself.
    mnrun_flags+=(-e "CUDA_VISIBLE_DEVICES=$all")
  elif [[ -n ${CUDA_VISIBLE_DEVICES-} ]]; then # the container sees only these GPUs, numbered anew
    mnrun_flags+=(-e "CUDA_VISIBLE_DEVICES=$(seq -s, 0 $((${#list[@]} - 1)))")
  fi
  for gpu in "${mnrun_mps[@]}"; do mnrun_flags+=(--mount "type=bind,source=$gpu,target=$gpu"); done
  if [[ $mnrun_runtime == docker ]] && command -v nvidia-container-runtime-hook >/dev/null; then
    if [[ $all != all ]]; then all="\"device=$all\""; fi # the engine reads a word of CSV, with its quotes
    mnrun_flags+=(--gpus "$all")
    return 0
  fi
  [[ $mnrun_runtime != docker ]] || info=$(ask 20 info --format '{{json .}}' 2>/dev/null) || true
  if [[ $info == *'"nvidia":'* ]]; then
    mnrun_flags+=(--runtime=nvidia -e "NVIDIA_VISIBLE_DEVICES=$all" -e NVIDIA_DRIVER_CAPABILITIES=all)
  elif ! grep -qrs 'nvidia.com/gpu' "${mnrun_cdi[@]}"; then
    lacking "$mnrun_runtime cannot give GPUs to containers on this node: install nvidia-container-toolkit, or --no-gpu"
  elif [[ $mnrun_runtime == docker && $info != *'"CDISpecDirs":["'* ]]; then
    lacking "dockerd does not read this node's CDI: \"features\": {\"cdi\": true} in its daemon.json, or --runtime podman"
  else
    for gpu in "${list[@]}"; do mnrun_flags+=("--device=nvidia.com/gpu=$(in_cdi "$gpu")"); done
  fi
}

lacking() { # WHY: Report the failure to the guard, and exit
  echo "fail $1" 1<>up
  exit 125
}

if [[ $mnrun_runtime == docker ]]; then
  user
  limits
else
  (umask 077 && mkdir -p "$mnrun_own/user")
  if [[ -n ${PMI_FD-} ]]; then # this open file of PMI2 is the only one that a rank gets
    mnrun_flags+=("--preserve-fd=$PMI_FD")
  fi
fi
gpus
set -- "${mnrun_jobs_engine[@]}" run "${mnrun_flags[@]}" "$@"

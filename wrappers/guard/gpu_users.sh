# shellcheck shell=bash disable=SC2154  # the guard's
# The guard sources this file in a process of its own, where the job holds GPUs. It reports what is not free on the
# node, and how GPUs and network are connected. nvidia-smi may take long, so nothing waits for it.

granted() { # INDEX UUID: Test whether the job has this GPU
  local gpu
  [[ -n ${CUDA_VISIBLE_DEVICES+set} ]] || return 0
  for gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do
    [[ $gpu != "$1" && (${#gpu} -lt 5 || $2 != "$gpu"*) ]] || return 0 # CUDA takes the beginning of a UUID, too
  done
  return 1
}

uuid_of() { # BUS: Set uuid to that of the GPU at this address, which the driver's file tells without a process
  local one two rest
  uuid=''
  while IFS=$': \t' read -r one two rest; do
    [[ "$one $two" != 'GPU UUID' ]] || uuid=$rest
  done 2>/dev/null <"${mnrun_proc:-/proc}/driver/nvidia/gpus/$1/information" || true
}

holders() { # Report the processes on GPUs of the job that are not the job's. The drivers 450 to 570 print such lines
  local line value uuid='' index=-1 pid='' type='' whose held=''
  while IFS= read -r line; do
    value=${line#*: }
    case $line in
      GPU\ *) index=$((index + 1)) line=${line,,} && uuid_of "${line: -12}" ;;
      *'Process ID '*) pid=$value ;;
      *' Type '*) type=$value ;;
      *' Name '*)
        # Graphics do not count. The server of MPS has the GPUs for its users.
        if [[ $type != *C* || $value == *nvidia-cuda-mps-server ]] || ! granted "$index" "$uuid" || ours "$pid"; then
          continue
        fi
        if [[ -O /proc/$pid ]]; then whose=', yours'; elif [[ -e /proc/$pid ]]; then whose=", another user's"; else whose=''; fi
        held+=", GPU $index (${value//[[:cntrl:]]/?}, process $pid$whose)" ;;
    esac
  done < <(timeout 60 nvidia-smi -q -d PIDS 2>/dev/null)
  [[ -z $held ]] || say "busy ${held:2:1000}"
}

forgotten() { # Report this user's files in /dev/shm that are older than the job, and that no process of the user has
  local file size old=()
  local -A used=()
  for file in /dev/shm/*; do
    [[ $file != */libpod_*lock* ]] || continue # Podman keeps one for each user
    if [[ -f $file && -O $file && ! -L $file && $file -ot own ]]; then old+=("$file"); fi
  done
  ((${#old[@]})) || return 0
  while IFS= read -r file; do used[$file]=1; done < <(
    grep -hos '/dev/shm/\(.*\)' /proc/[0-9]*/maps || true
    find /proc/[0-9]*/fd -lname '/dev/shm/*' -printf '%l\n'
  ) 2>/dev/null
  for file in "${!old[@]}"; do
    [[ -z ${used[${old[file]}]-} ]] || unset "old[$file]"
  done
  ((${#old[@]})) || return 0
  size=$(du -cm -- "${old[@]}" 2>/dev/null | tail -n 1) || true
  old=("${old[@]}")
  say "busy ${#old[@]} file${old[1]+s} of yours in /dev/shm that no process uses (${size%%[!0-9]*} MB): ${old[0]//[[:cntrl:]]/?}${old[1]+, …}"
}

topology() { # Report the topology of GPUs and network, for the job's records
  local line
  timeout 60 nvidia-smi topo -m 2>/dev/null | sed $'s/\e\\[[0-9;]*m//g' |
    while IFS= read -r line; do say "topology :${line:0:500}"; done
}

command -v nvidia-smi >/dev/null || return 0
deaf
export MNRUN_JOB_ID=$mnrun_id
holders
forgotten
topology

# shellcheck shell=bash
# The guard, detach.sh and head.sh source this file on the node. It reads the memory that Slurm grants the job here,
# from the kernel's account (cgroups(7)). It knows both versions of control groups, at any mount point.
# Every `return` has its value: without one, a function in a trap returns the exit code before the trap (bash(1)).

memory_group() { # Set REPLY to the directory of the job's memory control group
  # Return false where the job has none, or none that is visible.
  local kinds path root place rest wanted='' version=''
  REPLY=''
  [[ -n ${SLURM_JOB_ID-} ]] || return 1
  while IFS=: read -r _ kinds path; do
    [[ $path == */job_"$SLURM_JOB_ID"/* ]] || continue
    case ,$kinds, in
      *,memory,*) wanted=$path version='cgroup ' && break ;;
      ,,) wanted=$path version='cgroup2 ' ;;
    esac
  done </proc/self/cgroup
  [[ -n $wanted ]] || return 1
  wanted=${wanted%%/job_"$SLURM_JOB_ID"/*}/job_$SLURM_JOB_ID
  while read -r _ _ _ root place rest; do
    [[ $rest == *" - $version"* && ($version == 'cgroup2 ' || ,${rest##* }, == *,memory,*) ]] || continue
    [[ $root == / ]] || wanted=${wanted#"$root"}
    REPLY=$place$wanted
    [[ -d $REPLY ]] && return 0
  done </proc/self/mountinfo
  return 1
}

memory_kills() { # GROUP: Set REPLY to the number of killed processes in GROUP and below
  # The kernel has killed these because memory ran out.
  # Those that were killed before the guard began do not count.
  local file word number sum=0 files before=0
  if [[ -e $1/memory.events ]]; then files=("$1/memory.events"); else files=("$1"/{,step_*/{,task_*/}}memory.oom_control); fi
  for file in "${files[@]}"; do
    while read -r word number; do [[ $word != oom_kill ]] || ((sum += number)); done <"$file" || true
  done 2>/dev/null
  { read -r before _ <memory.before; } 2>/dev/null || true
  REPLY=$((sum > before ? sum - before : 0))
}

memory_before() { # Note in the file `memory.before` what an earlier step of the job has left in the kernel's account
  # It holds the number of killed processes, and the peak in bytes where the kernel has one.
  local group most
  memory_group || return 0
  group=$REPLY
  memory_kills "$group"
  { read -r most <"$group/memory.max_usage_in_bytes"; } 2>/dev/null || most=0
  ((REPLY == 0 && most == 0)) || echo "$REPLY $most" 2>/dev/null >memory.before || true # the disk may be full
}

memory_note() { # Write the number of killed processes of an ending step into the file `memory`
  # The control group is gone later.
  local group
  memory_group || return 0
  group=$REPLY
  memory_kills "$group"
  ((REPLY == 0)) || echo "$REPLY" 2>/dev/null >>memory || true # the disk may be full
}

memory_used_up() { # Set REPLY to the job's memory limit here in bytes, and to `killed` or `reached`
  # `killed` means that the kernel has killed a process for the limit. `reached` means that the job's peak was as high.
  # The control group of the step is gone then, so no more is known.
  local group limit most before=0
  memory_group || return 1
  group=$REPLY
  { read -r limit <"$group/memory.max" || read -r limit <"$group/memory.limit_in_bytes"; } 2>/dev/null
  [[ ${limit-} =~ ^[0-9]+$ ]] || return 1
  memory_kills "$group"
  { read -r most <"$group/memory.max_usage_in_bytes"; } 2>/dev/null || most=0
  { read -r _ before <memory.before; } 2>/dev/null || true
  if ((REPLY > 0)) || [[ -s memory ]]; then
    REPLY="$limit killed"
  elif ((most >= limit && before < limit)); then
    REPLY="$limit reached"
  else
    return 1
  fi
}

# shellcheck shell=bash
# The guard, detach.sh and head.sh source this file on the node. It reads the memory that the scheduler grants the job
# here, from the kernel's account (cgroups(7)). It knows both versions of control groups, at any mount point.
# Every `return` has its value: without one, a function in a trap returns the exit code before the trap (bash(1)).

job_group() { # KIND: Set REPLY to the directory of the job's control group, or of this process's own where that is .
  # A group of version 1 has a KIND: memory or cpuacct.
  # Return false where the job has none, or none that is visible.
  local kinds path root place rest wanted='' version=''
  REPLY=''
  [[ -n $mnrun_group ]] || return 1
  while IFS=: read -r _ kinds path; do
    [[ $mnrun_group == . || $path/ == */"$mnrun_group"/* ]] || continue
    case ,$kinds, in
      *,"$1",*) wanted=$path/ version='cgroup ' && break ;;
      ,,) wanted=$path/ version='cgroup2 ' ;;
    esac
  done </proc/self/cgroup
  [[ -n $wanted ]] || return 1
  [[ $mnrun_group == . ]] || wanted=${wanted%%/"$mnrun_group"/*}/$mnrun_group
  while read -r _ _ _ root place rest; do
    [[ $rest == *" - $version"* && ($version == 'cgroup2 ' || ,${rest##* }, == *,"$1",*) ]] || continue
    [[ $root == / ]] || wanted=${wanted#"$root"}
    REPLY=$place$wanted
    [[ -d $REPLY ]] && return 0
  done </proc/self/mountinfo
  return 1
}

memory_now() { # Set mnrun_kills and mnrun_peak, of the job's memory group in REPLY, or return false where there is none
  # mnrun_kills is the number of processes that the kernel has killed because memory ran out, since the guard began.
  # mnrun_peak is the peak in bytes, and mnrun_earlier that of before, or 0 where the kernel has none.
  local file word number files before=0
  job_group memory || return 1
  mnrun_kills=0 mnrun_peak=0 mnrun_earlier=0
  files=("$REPLY/memory.events")
  [[ -e ${files[0]} ]] || files=("$REPLY"/{,step_*/{,task_*/}}memory.oom_control)
  for file in "${files[@]}"; do
    while read -r word number; do [[ $word != oom_kill ]] || ((mnrun_kills += number)); done <"$file" || true
  done 2>/dev/null
  { read -r mnrun_peak <"$REPLY/memory.max_usage_in_bytes"; } 2>/dev/null || mnrun_peak=0
  { read -r before mnrun_earlier <memory.before; } 2>/dev/null || true
  mnrun_kills=$((mnrun_kills > before ? mnrun_kills - before : 0))
}

memory_before() { # Note in the file `memory.before` what an earlier step of the job has left in the kernel's account
  memory_now || return 0
  ((mnrun_kills == 0 && mnrun_peak == 0)) ||
    echo "$mnrun_kills $mnrun_peak" 2>/dev/null >memory.before || true # the disk may be full
}

memory_note() { # Write the number of killed processes into the file `memory`. The control group is gone later
  memory_now || return 0
  ((mnrun_kills == 0)) || echo "$mnrun_kills" 2>/dev/null >>memory || true # the disk may be full
}

memory_limit() { # Set REPLY to the limit of the memory group in REPLY, in bytes, or return false where it has none
  { read -r REPLY <"$REPLY/memory.max" || read -r REPLY <"$REPLY/memory.limit_in_bytes"; } 2>/dev/null
  [[ $REPLY =~ ^[0-9]{1,18}$ ]] # `max`, or a number of 19 digits, is none
}

memory_used_up() { # Set REPLY to the job's memory limit here in bytes, and to `killed` or `reached`
  # `killed` means that the kernel has killed a process for the limit. `reached` means that the job's peak was as high.
  # The control group of the step is gone then, so no more is known.
  local limit
  memory_now || return 1
  memory_limit || return 1
  limit=$REPLY
  if ((mnrun_kills > 0)) || [[ -s memory ]]; then
    REPLY="$limit killed"
  elif ((mnrun_peak >= limit && mnrun_earlier < limit)); then
    REPLY="$limit reached"
  else
    return 1
  fi
}

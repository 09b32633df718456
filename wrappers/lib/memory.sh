# shellcheck shell=bash
# The memory that Slurm grants the job on this node, as the kernel keeps account of it (cgroups(7)): both versions of
# control groups, wherever they are mounted. Sourced.

memory_group() { # sets REPLY to the directory of the job's control group of memory; false where it has none that we see
  local kinds path root place rest wanted='' version=''
  REPLY=''
  [[ -n ${SLURM_JOB_ID-} ]] || return
  while IFS=: read -r _ kinds path; do
    [[ $path == */job_"$SLURM_JOB_ID"/* ]] || continue
    case ,$kinds, in
      *,memory,*) wanted=$path version='cgroup ' && break ;;
      ,,) wanted=$path version='cgroup2 ' ;;
    esac
  done </proc/self/cgroup
  [[ -n $wanted ]] || return
  wanted=${wanted%%/job_"$SLURM_JOB_ID"/*}/job_$SLURM_JOB_ID
  while read -r _ _ _ root place rest; do
    [[ $rest == *" - $version"* && ($version == 'cgroup2 ' || ,${rest##* }, == *,memory,*) ]] || continue
    [[ $root == / ]] || wanted=${wanted#"$root"}
    REPLY=$place$wanted
    [[ -d $REPLY ]] && return
  done </proc/self/mountinfo
  return 1
}

memory_kills() { # GROUP: sets REPLY to how many processes in it and below the kernel has killed for want of memory
  local file word number sum=0 files
  if [[ -e $1/memory.events ]]; then files=("$1/memory.events"); else files=("$1"/{,step_*/{,task_*/}}memory.oom_control); fi
  for file in "${files[@]}"; do
    while read -r word number; do [[ $word != oom_kill ]] || ((sum += number)); done <"$file" || true
  done 2>/dev/null
  REPLY=$sum
}

memory_note() { # into the file `memory`, of a step that ends: later its control group is gone
  local group
  memory_group || return 0
  group=$REPLY
  memory_kills "$group"
  ((REPLY == 0)) || echo "$REPLY" >>memory
}

memory_used_up() { # sets REPLY to the job's limit here in bytes, and `killed` where the kernel has killed for it, or
  # `reached` where the job has had so much at a time, and nobody knows more, since its step is gone
  local group limit most
  memory_group || return
  group=$REPLY
  { read -r limit <"$group/memory.max" || read -r limit <"$group/memory.limit_in_bytes"; } 2>/dev/null
  [[ ${limit-} =~ ^[0-9]+$ ]] || return
  memory_kills "$group"
  { read -r most <"$group/memory.max_usage_in_bytes"; } 2>/dev/null || most=0
  if ((REPLY > 0)) || [[ -s memory ]]; then
    REPLY="$limit killed"
  elif ((most >= limit)); then
    REPLY="$limit reached"
  else
    return 1
  fi
}

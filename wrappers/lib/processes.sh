# shellcheck shell=bash disable=SC2154  # job.sh
# Wrappers on the node source this file, after job.sh. It reads processes from /proc.
# A process may have any name, also with newlines and brackets. So the functions read one file at a time. They take
# the pid from the directory's name, and the fields from after the last `)` (proc(5), stat).

stat_of() { # PID: Set mnrun_stat to the fields from its state on, which is the third. Return false where it has gone
  local text=''
  { IFS= read -rd '' text <"/proc/$1/stat"; } 2>/dev/null || true # the file has no NUL at its end
  # shellcheck disable=SC2206  # a letter and numbers
  mnrun_stat=(${text##*) })
  ((${#mnrun_stat[@]}))
}

began() { # PID: Set REPLY to its start time, by which it differs from a later one with the same pid
  stat_of "$1" || true
  REPLY=${mnrun_stat[19]-}
  [[ -n $REPLY ]]
}

lives() { # PID BEGAN: Test whether that very process lives
  [[ $1 =~ ^[0-9]+$ ]] && began "$1" && [[ $REPLY == "$2" ]]
}

jobs_around() { # Set REPLY to `NAME=VALUE` of each scheduler's job around this shell
  local name
  REPLY=''
  for name in ${mnrun_marks//|/ }; do [[ -z ${!name-} ]] || REPLY+=" $name=${!name}"; done
}

marked() { # ID [PROC]: Print the processes that have this job's mark in their environment, in any session
  # shellcheck disable=SC2016  # awk's own
  by_mark "$1" '' '
    BEGIN {
      for (i = 1; i < ARGC; i++) {
        split(substr(ARGV[i], length(proc) + 2), parts, "/")
        if (marked(parts[1])) print parts[1]
      }
    }' "${2:-/proc}" "${2:-/proc}"/[0-9]*/environ
}

by_mark() { # ID GIVEN PROGRAM PROC FILES…: Become awk with PROGRAM, which has marked(pid) and the variables given and proc
  # A process of another job of a scheduler does not count. sbatch forwards the environment, and with it the mark, to a
  # job that was submitted from within this one. A job is another if it is neither the one around this shell, nor the
  # one of this launch (mnrun_jobs of job.sh).
  # In the middle of execve(2) the environment of a process is empty, and its startcode is 0 (proc(5), stat). Such a
  # process may be one that podman leaves behind, so this waits for it, at most a second. An empty environment counts
  # after a second look at it, because the process may have got to its program before its startcode was read.
  # mnrun_marks has the names of the schedulers' variables. PREPARE and probes have none: they start no other job.
  local mnrun_marks=${mnrun_marks-}
  jobs_around
  exec awk -v mark="MNRUN_JOB_ID=$1" -v own="$REPLY ${mnrun_jobs-}" -v marks="^(${mnrun_marks:-=})=." \
    -v given="$2" -v proc="$4" '
    function begins(pid,   file, text, f) {
      file = proc "/" pid "/stat"
      getline text < file
      close(file)
      sub(/^.*\) /, "", text) # field N of proc(5) is now N - 2
      return split(text, f) > 23 && f[21] > 0 && f[24] == 0
    }
    function has_variables(file,   variable, got, variables) { # or they are hidden. Set mine and other by them
      mine = other = 0
      for (; (got = getline variable < file) > 0; variables++) {
        if (variable == mark) mine = 1
        if (variable ~ marks && !(variable in ours)) other = 1
      }
      close(file)
      return variables || got < 0
    }
    function marked(pid,   looks, empty) {
      while (empty < 2 && looks++ < 100 && !has_variables(proc "/" pid "/environ")) {
        empty = begins(pid) ? 0 : empty + 1
        if (!empty) system("sleep 0.01")
      }
      return mine && !other
    }
    BEGIN {
      RS = "\0"
      split(own, parts, " ")
      for (i in parts) ours[parts[i]]
    }'"$3" "${@:5}"
}

family() { # Set mnrun_below to the leaders of the job's sessions, but for the guard's own, and their descendants
  local pid start leaders=()
  if [[ -e sessions ]]; then
    {
      read -r _ || true
      while read -r pid start; do
        if lives "$pid" "$start"; then leaders+=("$pid"); fi
      done
    } <sessions
  fi
  below "${leaders[@]}"
}

below() { # PIDS: Set mnrun_below to these processes and their descendants, as far as the kernel tells (proc(5), children)
  local i file children
  mnrun_below=("$@")
  for ((i = 0; i < ${#mnrun_below[@]}; i++)); do
    for file in "/proc/${mnrun_below[i]}/task"/*/children; do
      children=()
      { read -ra children <"$file"; } 2>/dev/null || true # the file has no newline at its end
      mnrun_below+=("${children[@]}")
    done
  done
}

numbered() { # PID INNER BEGAN: Test whether the node's process PID has the pid INNER in its container
  local line
  lives "$1" "$3" || return 1
  while read -r line; do
    if [[ $line =~ ^NSpid:.*[[:space:]]$2$ ]]; then return 0; fi
  done 2>/dev/null <"/proc/$1/status"
  return 1
}

in_container() { # PID BEGAN: Set REPLY to the node's pid of that process in a container, below one of the job's sessions
  local pid
  family
  for pid in "${mnrun_below[@]}"; do
    if numbered "$pid" "$1" "$2"; then REPLY=$pid && return 0; fi
  done
  return 1
}

bears() { # PID: Test whether a process has the job's mark in its environment
  local pair pairs=()
  { mapfile -d '' -t pairs <"/proc/$1/environ"; } 2>/dev/null || true
  for pair in "${pairs[@]}"; do [[ $pair != "MNRUN_JOB_ID=$mnrun_id" ]] || return 0; done
  return 1
}

ours() { # PID: Test whether a process is the job's, by its mark or by a session
  # The name of a process comes from a container, which could name any.
  local pid
  if bears "$1"; then return 0; fi
  family
  for pid in "${mnrun_below[@]}"; do [[ $pid != "$1" ]] || return 0; done
  return 1
}

outer() { # PID BEGAN [NAMESPACE]: Set REPLY to the node's pid of the job's process with this PID in its container
  # Return false where the process has ended, or is not the job's.
  local pid
  if lives "$1" "$2" && ours "$1"; then REPLY=$1 && return 0; fi
  if [[ $1 =~ ^[0-9]+$ ]] && in_container "$1" "$2"; then return 0; fi
  if [[ $1 =~ ^[0-9]+$ && ${3-} == pid:* ]]; then # the containers of an engine are no descendants of the job's processes
    while IFS=/ read -r _ _ pid _; do
      if numbered "$pid" "$1" "$2" && bears "$pid"; then REPLY=$pid && return 0; fi
    done < <(find /proc/[0-9]*/ns/pid -maxdepth 0 -lname "pid:\\[${3//[!0-9]/}\\]" 2>/dev/null)
  fi
  REPLY=''
  return 1
}

waits_in() { # PID: Set REPLY to the kernel function and the system call in which it waits, as far as we may read them
  local function='' call=''
  { IFS= read -rd '' function <"/proc/$1/wchan"; } 2>/dev/null || true
  { read -r call _ <"/proc/$1/syscall"; } 2>/dev/null || true
  REPLY="${function:-0}"$'\t'"${call:--}"
}

session() { # Set REPLY to this shell's session and the start time of its leader
  # The start time is 0 where the leader is hidden. REPLY is empty where the leader is outside this container. Its pid
  # is then 0 for all processes inside.
  local session
  read -r _ _ _ _ _ session _ <"/proc/$$/stat"
  began "$session" || REPLY=0
  REPLY="$session $REPLY"
  ((session)) || REPLY=''
}

other_namespaces() { # PID: Set mnrun_flags to nsenter's options for the namespaces of PID that differ from this shell's
  local kind option
  mnrun_flags=()
  for option in U:user m:mnt p:pid i:ipc u:uts n:net C:cgroup; do
    kind=${option#*:}
    [[ /proc/$1/ns/$kind -ef /proc/self/ns/$kind ]] || mnrun_flags+=("-${option%:*}")
  done
}

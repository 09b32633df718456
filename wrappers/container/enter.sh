# shellcheck shell=bash
# into.sh runs `enter.sh RANK [WORDS…]` on the node, in the job's directory. It runs WORDS in the container of RANK, or
# of the first rank here if RANK is empty. Without WORDS, it runs a shell.
# WORDS have the environment of RANK, or of the node's container. MNRUN_RANK_PID is the pid of the rank as WORDS see it.
# The process carries the job's mark, so the guard ends it with the job.
set -euo pipefail +o posix
source ./job.sh
source ./home.sh
mnrun_jobs_engine=()
[[ ! -e engines.sh ]] || source ./engines.sh
source ./processes.sh
mnrun_rank=$1
shift
mnrun_node=$(<self)

fail() { # CODE WHY: Report the failure, and exit
  echo "mnrun: $2" >&2
  exit "$1"
}

of() { # FILE: Set REPLY to the node's pid of the process that FILE names, if it lives
  local pid start names
  REPLY=''
  { read -r pid start names <"$1"; } 2>/dev/null || return 1
  outer "$pid" "$start" "$names"
}

first() { # Set REPLY to the node's pid of the first rank here, else of the container that waits here
  local number
  while read -r number; do
    if of "pid.$number"; then return 0; fi
  done < <(printf '%s\n' pid.[0-9]* | sed -n 's/^pid\.\([0-9]*\)$/\1/p' | sort -n)
  of pid.serve
}

exports() { # PID: Print its environment as lines for a shell, without the variables that a shell sets itself
  LC_ALL=C sed -z "/^\(UID\|EUID\|PPID\|SHELLOPTS\|BASHOPTS\|BASH_VERSINFO\|PWD\|OLDPWD\|SHLVL\|_\)=/d
    s/'/'\\\\''/g
    s/^\([A-Za-z_][A-Za-z0-9_]*\)=\(.*\)\$/export \1='\2'/
    /^export /!d" "/proc/$1/environ" | tr '\0' '\n'
}

container_of() { # PID: Print the id of the engine's container in which PID runs
  local id pid
  while read -r id; do
    pid=$(ask_jobs_engine 20 inspect --format '{{.State.Pid}}' "$id") || continue
    if [[ /proc/$pid/ns/mnt -ef /proc/$1/ns/mnt ]]; then echo "$id" && return 0; fi
  done < <(ask_jobs_engine 20 ps --quiet --no-trunc --filter "label=mnrun.job=$mnrun_id")
  return 1
}

if [[ -n $mnrun_rank ]]; then
  of "pid.$mnrun_rank" || fail 121 "rank $mnrun_rank does not run on $mnrun_node: it has ended, or has not started"
else
  first || fail 121 "no rank runs on $mnrun_node yet"
fi
mnrun_pid=$REPLY mnrun_user=''
if [[ -z $mnrun_rank && -n $mnrun_inside ]] && of pid.serve; then mnrun_user=1; else REPLY=$mnrun_pid; fi

umask 077
{
  exports "$REPLY"
  sed -n 's/^NSpid:.*[[:space:]]\([0-9]*\)$/export MNRUN_RANK_PID=\1/p' "/proc/$mnrun_pid/status"
  [[ -z ${MNRUN_CONNECTION-} ]] || echo "export MNRUN_CONNECTION=$MNRUN_CONNECTION" # proxy.sh
  if [[ -t 0 && -n ${TERM-} ]]; then
    printf "export TERM='%s' PS1='mnrun:%s:\\\\w\\\\$ '\n" "${TERM//[^a-zA-Z0-9._+-]/}" "$mnrun_node"
  fi
} >"enter.$$"
mv -fT -- "enter.$$" "box/enter.$$" # whatever a container has put there, this follows no link
mnrun_command=(sh -c "$mnrun_into" "$mnrun_here/box" entered.sh "enter.$$" "$mnrun_user" "$@")
mnrun_clean=(env -i "PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin" "HOME=$HOME" "MNRUN_JOB_ID=$mnrun_id"
  ${MNRUN_CONNECTION+"MNRUN_CONNECTION=$MNRUN_CONNECTION"} ${mnrun_job_variable:+"$mnrun_job_variable=$mnrun_job_value"})

if ((${#mnrun_jobs_engine[@]})); then
  # Inside-out, a rank of podman has the capability SYS_PTRACE. A debugger needs it as well (ptrace(2)), and the engine
  # gives it.
  mnrun_container=$(container_of "$mnrun_pid") ||
    fail 125 "$mnrun_runtime on $mnrun_node does not show the container of process $mnrun_pid"
  mnrun_flags=(--interactive)
  [[ ! -t 0 ]] || mnrun_flags+=(--tty)
  exec env "MNRUN_JOB_ID=$mnrun_id" "${mnrun_jobs_engine[@]}" exec "${mnrun_flags[@]}" "$mnrun_container" "${mnrun_command[@]}"
fi
other_namespaces "$mnrun_pid"
if ((${#mnrun_flags[@]} == 0)); then exec "${mnrun_clean[@]}" "${mnrun_command[@]}"; fi
if [[ $mnrun_runtime != charliecloud ]] && { read -r _ mnrun_parent <holder; } 2>/dev/null &&
  [[ -n $mnrun_parent ]]; then
  # This container has a name, by which every Apptainer enters it (join_container.sh).
  exec "${mnrun_clean[@]}" ${APPTAINER_CONFIGDIR+"APPTAINER_CONFIGDIR=$APPTAINER_CONFIGDIR"} \
    "$mnrun_runtime" -q exec "instance://sharens_instance_$mnrun_parent" "${mnrun_command[@]}"
fi
# The owner of a user namespace may enter it, with all that belongs to it (user_namespaces(7)).
[[ " ${mnrun_flags[*]} " == *' -U '* ]] ||
  fail 125 "$mnrun_runtime is installed setuid on $mnrun_node, so that only a container of --runtime apptainer \
--mode outside-in can be entered: start the job with these"
command -v nsenter >/dev/null ||
  fail 125 "$mnrun_node has no nsenter, by which mnrun enters a container: install util-linux"
hash setpriv 2>/dev/null && mnrun_clean+=(setpriv --no-new-privs) # as Apptainer and ch-run start their programs
exec "${mnrun_clean[@]}" nsenter --preserve-credentials -t "$mnrun_pid" "${mnrun_flags[@]}" -- "${mnrun_command[@]}"

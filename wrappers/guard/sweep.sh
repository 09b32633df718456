# shellcheck shell=bash disable=SC2154  # names of job.sh's, and $mnrun_here
# The guard, its undertaker and stop.sh source this file, on the node. It defines the functions that end all processes
# of a job and remove the job's directory.
# The caller's working directory is the job's directory, and the caller has proven its ownership. So files in it are
# read as ./NAME. While the directory exists, no other user can take its name $mnrun_here, so that name is safe as well.
source ./job.sh
source ./engines.sh
source ./processes.sh
mnrun_shm=/dev/shm/${mnrun_here##*/}

marked() { # Print the processes that have the job's mark in their environment, in any session
  # A process of another Slurm job does not count. sbatch forwards the environment, and with it the mark, to a job
  # that was submitted from within this one.
  local files line
  local -A other=()
  mapfile -t files < <(grep -slzxF -- "MNRUN_JOB_ID=$mnrun_id" /proc/[0-9]*/environ)
  ((${#files[@]})) || return 0
  while [[ -n ${SLURM_JOB_ID-} ]] && IFS= read -rd '' line; do
    [[ ${line##*=} == "$SLURM_JOB_ID" ]] || other[${line%%:*}]=1
  done < <(grep -szHE '^SLURM_JOB_ID=' -- "${files[@]}")
  for line in "${files[@]}"; do [[ -n ${other[$line]-} ]] || printf '%s\n' "${line//[!0-9]/}"; done
}

alive() { # Print the job's live processes of this user, without the caller's helpers
  # The mark finds most of them. The session finds squashfuse_ll, which has none of the job's variables. Descent from
  # these finds sshd's processes, which hide their environment from other processes of the user.
  awk -v caller=$$ -v box="${mnrun_box_PID:-0}" -v uid="$EUID" -v sessions="$(tr '\n' ' ' <sessions)" -v marked="$(marked | tr '\n' ' ')" '
    function content(file,   text, line) {
      while ((getline line < file) > 0) text = text line "\n"
      close(file)
      return text
    }
    function is_ours(pid,   parts, ids) { # Linux escapes newlines in Name (fs/proc/array.c)
      split(content("/proc/" pid "/status"), parts, /\nUid:[ \t]*/)
      return split(parts[2], ids) && ids[1] == uid
    }
    function near(session) { # test for a session of the job. A live leader must have the recorded start time
      return session in known && (!(session in start) || known[session] == 0 || (session, start[session]) in listed)
    }
    BEGIN {
      n = split(sessions, s)
      for (i = 1; i < n; i += 2) { known[s[i]] = s[i + 1]; listed[s[i], s[i + 1]] = 1 }
      n = split(marked, s)
      for (i = 1; i <= n; i++) found[s[i]] = 1
      for (i = 1; i < ARGC; i++) {
        pid = ARGV[i]
        gsub(/[^0-9]/, "", pid)
        text = content(ARGV[i])
        sub(/^.*\) /, "", text) # field 20 of the rest is the start (proc(5), field 22)
        if (split(text, f) < 20 || f[1] == "Z") continue
        parent[pid] = f[2]; session[pid] = f[4]; start[pid] = f[20]
      }
      for (pid in parent) {
        if (pid in found) continue
        boxed = 0; kin = 0
        for (p = pid; p in parent && p != caller; p = parent[p]) {
          if (p == box && pid != box) boxed = 1
          if (near(session[p])) kin = 1
        }
        if (boxed || (kin && p != caller)) found[pid] = 1
      }
      for (pid in found) if (pid in parent && is_ours(pid)) print pid
    }' /proc/[0-9]*/stat
}

sweep() { # End all processes of the job. Print those that could not be ended
  local round left=""
  for round in {1..100}; do
    left=$(alive | tr '\n' ' ')
    [[ -n ${left// /} ]] || break
    # shellcheck disable=SC2086  # a list of pids
    kill -KILL $left 2>/dev/null || true
    ((round == 1)) || sleep 0.05
  done
  echo "$left"
}

sweep_all() { # End containers and processes. Print those that remain
  # Containers end first, and once more after the processes, because one may have been about to start.
  local left containers
  containers=$(end_containers)
  left=$(sweep)
  if ((${#mnrun_boxes[@]})); then
    containers=$(end_containers)
    left=$(sweep)
    [[ -n $mnrun_keep ]] || scrap
    left=$(sweep)
  fi
  echo "$containers$left"
}

unname() { # PID: Remove the files that Apptainer has named after PID
  # A killed `apptainer exec --sharens` leaves them.
  [[ $1 =~ ^[0-9]+$ ]] || return 0
  rm -rf "/dev/shm/sharens_instance_$1" "${APPTAINER_CONFIGDIR:-${HOME-}/.apptainer}/instances/app/$(uname -n)/$(id -un)/sharens_instance_$1"
}

wipe_beside() { # DIRECTORY: Remove a directory of the job that lies beside the node directory, if the user owns it
  [[ ! -O $1 || -L $1 || ! -d $1 ]] || rm -rf -- "$1"
}

remove_here() { # DIRECTORY: Remove the working directory, if the user owns it and it still has this name
  [[ -O . && . -ef $1 ]] && rm -rf -- "$1"
}

wipe() { # Remove the job's files and directories on this node
  local parent step
  { read -r _ parent <holder; } 2>/dev/null && unname "$parent"
  if { read -r step <pmix; } 2>/dev/null; then
    wipe_beside "/tmp/spmix_appdir_${EUID}_${SLURM_JOB_ID-}.$step"
    wipe_beside "/tmp/spmix_appdir_${SLURM_JOB_ID-}.$step"
  fi
  rm -f /dev/shm/{ch-run_shm,sem.ch-run_sem}-"$mnrun_id"
  wipe_beside "$mnrun_here.lease"
  if [[ -z $mnrun_keep ]]; then
    wipe_beside "$mnrun_shm"
    remove_here "$mnrun_here"
  else
    # The environment files may hold secrets. Without `own`, leftovers.sh leaves the directory alone.
    rm -f {key,hostkey,user.env,session.env,launch.env,own}
  fi || true
}

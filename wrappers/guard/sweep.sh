# shellcheck shell=bash disable=SC2154  # names of job.sh's, and $mnrun_here
# Ends everything of a job on its node, and removes the job's directory there. Sourced by the guard, its undertaker and
# stop.sh. Each of them has that directory as its working directory, and has proven that it is theirs: files in it are
# read as ./NAME. While the directory is there nobody else can make its name $mnrun_here, so that may be used as well.
source ./job.sh
source ./engines.sh
source ./processes.sh
mnrun_shm=/dev/shm/${mnrun_here##*/}

marked() { # processes with the job's mark in their environment, in whatever session they are. Not those of another Slurm
  # job: sbatch hands the environment, and with it the mark, on to a job that was submitted from within this one
  local files line
  local -A other=()
  mapfile -t files < <(grep -slzxF -- "MNRUN_JOB_ID=$mnrun_id" /proc/[0-9]*/environ)
  ((${#files[@]})) || return 0
  while [[ -n ${SLURM_JOB_ID-} ]] && IFS= read -rd '' line; do
    [[ ${line##*=} == "$SLURM_JOB_ID" ]] || other[${line%%:*}]=1
  done < <(grep -szHE '^SLURM_JOB_ID=' -- "${files[@]}")
  for line in "${files[@]}"; do [[ -n ${other[$line]-} ]] || printf '%s\n' "${line//[!0-9]/}"; done
}

alive() { # the job's processes that live and are the user's own, and never the caller's helpers. They are found by the
  # mark; by session, since squashfuse_ll has none of the job's variables; and by descent from these, since sshd's processes hide
  # theirs from other processes of the user
  awk -v caller=$$ -v box="${mnrun_box_PID:-0}" -v uid="$EUID" -v sessions="$(tr '\n' ' ' <sessions)" -v marked="$(marked | tr '\n' ' ')" '
    function content(file,   text, line) {
      while ((getline line < file) > 0) text = text line "\n"
      close(file)
      return text
    }
    function is_ours(pid,   parts, ids) { # a newline in its Name is escaped there, so the first Uid: is the real one (Linux, fs/proc/array.c)
      split(content("/proc/" pid "/status"), parts, /\nUid:[ \t]*/)
      return split(parts[2], ids) && ids[1] == uid
    }
    function near(session) { # whether it is a session of the job. A leader that lives must have started when ours did
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
        sub(/^.*\) /, "", text) # state ppid pgrp session follow the name; the 20th of these is the start (proc(5), field 22)
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

sweep() { # end all processes of the job; says which could not be ended
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

sweep_all() { # containers first, and once more, since one may have been about to start; says what is left
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

unname() { # PID: remove what Apptainer has named by that number, and leaves where `apptainer exec --sharens` is killed
  [[ $1 =~ ^[0-9]+$ ]] || return 0
  rm -rf "/dev/shm/sharens_instance_$1" "${APPTAINER_CONFIGDIR:-${HOME-}/.apptainer}/instances/app/$(uname -n)/$(id -un)/sharens_instance_$1"
}

wipe_beside() { # DIRECTORY: remove one of the job's that lies beside its own, if it is the user's
  [[ ! -O $1 || -L $1 || ! -d $1 ]] || rm -rf -- "$1"
}

remove_here() { # DIRECTORY: remove our working directory, if it is the user's and still has this name
  [[ -O . && . -ef $1 ]] && rm -rf -- "$1"
}

wipe() {
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
    rm -f {key,hostkey,user.env,session.env,launch.env,own} # the first may hold secrets; without `own` leftovers.sh leaves the directory alone
  fi || true
}

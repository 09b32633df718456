# shellcheck shell=bash disable=SC2154  # job.sh's, and $mnrun_here
# Ends everything of a job on its node, and removes the job's directory there. Sourced by the guard, its undertaker and
# stop.sh, all of which have that directory as their own, proven theirs: what is in it is read as ./NAME. For as long as
# one of them is about to remove it, nobody else can make its name $mnrun_here, and so that may be used as well.
source ./job.sh
source ./engines.sh
source ./processes.sh
mnrun_shm=/dev/shm/${mnrun_here##*/}

marked() { # processes with the job's mark, however far they have gone, but not those of a Slurm job that was handed in from this one
  local files line
  local -A other=()
  mapfile -t files < <(grep -slzxF -- "MNRUN_JOB_ID=$mnrun_id" /proc/[0-9]*/environ)
  ((${#files[@]})) || return 0
  while [[ -n ${SLURM_JOB_ID-} ]] && IFS= read -rd '' line; do
    [[ ${line##*=} == "$SLURM_JOB_ID" ]] || other[${line%%:*}]=1
  done < <(grep -szHE '^SLURM_JOB_ID=' -- "${files[@]}")
  for line in "${files[@]}"; do [[ -n ${other[$line]-} ]] || printf '%s\n' "${line//[!0-9]/}"; done
}

alive() { # of the processes with the job's mark and of what box.sh started those that live and are ours, never the caller's
  # helpers: by session (squashfuse_ll has no environment of the job's), or by descent from that (sshd's hide theirs)
  # shellcheck disable=SC2046  # numbers
  awk -v caller=$$ -v box="${mnrun_box_PID:-0}" -v uid="$EUID" -v sessions="$(tr '\n' ' ' <sessions)" -v marked="$(marked | tr '\n' ' ')" '
    function content(file,   text, line) {
      while ((getline line < file) > 0) text = text line "\n"
      close(file)
      return text
    }
    function is_ours(pid,   parts, ids) { # its Name is written there without newlines
      split(content("/proc/" pid "/status"), parts, /\nUid:[ \t]*/)
      return split(parts[2], ids) && ids[1] == uid
    }
    function near(session) { # a session of the job; where its leader lives, with the time of his start
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
        sub(/^.*\) /, "", text) # state ppid pgrp session …, the 20th is the start
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

sweep() { # until nothing of the job is left; says what could not be ended
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

sweep_all() { # containers first, and again, since one may have been about to start; says what is left
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

unname() { # PID: what Apptainer names by it, and leaves where the container is killed
  [[ $1 =~ ^[0-9]+$ ]] || return 0
  rm -rf "/dev/shm/sharens_instance_$1" "${APPTAINER_CONFIGDIR:-${HOME-}/.apptainer}/instances/app/$(uname -n)/$(id -un)/sharens_instance_$1"
}

wipe_beside() { # DIRECTORY: one of the job's that is not in its own, if it is ours
  [[ ! -O $1 || -L $1 || ! -d $1 ]] || rm -rf -- "$1"
}

remove_here() { # DIRECTORY: our own, in which we are; nothing where we are anywhere else, or its name is another's
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
    rm -f {key,hostkey,user.env,session.env,launch.env,own} # what may be secret; and it is nobody's remains
  fi || true
}

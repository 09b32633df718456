#!/bin/bash
# Ends everything of a job on its node, and removes the job's directory there. The guard has these
# functions; `sweep.sh watch` is its undertaker, which acts once its standard input ends;
# `sweep.sh` alone acts at once, for a launcher whose guards have gone without a farewell.
set -euo pipefail +o posix
mnrun_here=$(cd "${BASH_SOURCE[0]%/*}" && pwd)
mnrun_shm=/dev/shm/${mnrun_here##*/}
source "$mnrun_here/job.sh"
source "$mnrun_here/engines.sh"

marked() { # carry the job's mark in their environment, however far they have gone
  grep -slzxF -- "MNRUN_JOB_ID=$mnrun_id" /proc/[0-9]*/environ | cut -d/ -f3 || true
}

kin() { # of what box.sh started: by session (squashfuse_ll has no environment of the job's) or by
  # descent from that (sshd's processes hide theirs); never the caller's helpers
  cat /proc/[0-9]*/stat 2>/dev/null | awk -v caller=$$ -v box="${mnrun_box_PID:-0}" -v list="$(tr '\n' ' ' <"$mnrun_here/sessions")" '
    BEGIN { n = split(list, s); for (i = 1; i <= n; i++) ours[s[i]] = 1 }
    { pid = $1; sub(/^.*\) /, "") } # state ppid pgrp session
    $1 != "Z" { parent[pid] = $2; session[pid] = $4 }
    END {
      for (pid in parent) {
        boxed = 0; near = 0
        for (p = pid; p in parent && p != caller; p = parent[p]) {
          if (p == box && pid != box) boxed = 1
          if (session[p] in ours) near = 1
        }
        if (boxed || (near && p != caller)) print pid
      }
    }'
}

sweep() { # until nothing of the job is left; says what could not be ended
  local round left=""
  for round in {1..100}; do
    left=$({ marked; kin; } | sort -u | while read -r pid; do
      if kill -0 "$pid" 2>/dev/null; then printf '%s ' "$pid"; fi # not the scheduler's own, nor what is gone
    done)
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
  rm -rf "/dev/shm/sharens_instance_$1" "${APPTAINER_CONFIGDIR:-$HOME/.apptainer}/instances/app/$(uname -n)/$(id -un)/sharens_instance_$1"
}

wipe() {
  local parent
  read -r _ parent 2>/dev/null <"$mnrun_here/holder" && unname "$parent"
  rm -f /dev/shm/{ch-run_shm,sem.ch-run_sem}-"$mnrun_id"
  cd /
  rm -f -- "$mnrun_here.lease"
  if [[ -z $mnrun_keep ]]; then
    rm -rf -- "$mnrun_here" "$mnrun_shm"
  else
    rm -f "$mnrun_here"/{key,hostkey,user.env,session.env,launch.env} # what may be secret
  fi
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  if [[ ${1-} == watch ]]; then
    trap '' HUP INT TERM USR1 USR2
    cat >/dev/null
    rm -rf -- "$mnrun_here".script.* # of a batch script that was killed as well
    [[ -d $mnrun_here ]] || exit 0   # the guard has done it
  fi
  rm -f "$mnrun_here"/{key,hostkey}
  left=$(sweep_all)
  wipe
  [[ -z $left ]] || { echo "could not be ended: $left" >&2; exit 1; }
fi

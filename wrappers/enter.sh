#!/bin/bash
# shellcheck disable=SC2154  # what is given
# The first of a batch script: the record of this start, before any line of the user's, so that its followers
# know where it writes and how it ended even where a module cannot be loaded. Given: mnrun_jobs.
# All names here begin with mnrun_, since the user's lines come next.

mnrun_json() { # TEXT as a string of JSON
  local text=${1//[[:cntrl:]]/ }
  text=${text//\\/"\\\\"}
  printf '"%s"' "${text//\"/'\"'}"
}

mnrun_began() { # SPLIT: where this start runs and writes
  (umask 077 && mkdir -p "$mnrun_record") || return
  printf '{"time": %s, "nodes": %s, "head": %s, "output": %s, "error": %s, "split_output": %s}\n' \
    "$(date +%s)" "$(mnrun_json "$SLURM_JOB_NODELIST")" "$(mnrun_json "${SLURMD_NODENAME:-$(uname -n)}")" \
    "$(mnrun_json "$(readlink -f /proc/$$/fd/1)")" "$(mnrun_json "$(readlink -f /proc/$$/fd/2)")" \
    "$(mnrun_json "$1")" >"$mnrun_record/begun.new" && mv "$mnrun_record/begun.new" "$mnrun_record/begun"
}

mnrun_ended() { # CODE WHY
  [[ -d $mnrun_record ]] || return 0
  printf '{"time": %s, "code": %s, "why": %s}\n' "$(date +%s)" "$1" "$(mnrun_json "$2")" >"$mnrun_record/outcome.new" &&
    mv "$mnrun_record/outcome.new" "$mnrun_record/outcome"
}

mnrun_failed_at() { # CODE LINE COMMAND FILE: which of the user's lines failed, as it is written, also in what they source
  local line='' # the command is another within a function, which `module` is
  read -r line < <(sed -n "$2p" "${4:-$0}" 2>/dev/null) || :
  mnrun_why="failed with $1: ${line:-$3}"
  [[ ${4:-$0} == "$0" ]] || mnrun_why+=" (line $2 of $4)"
  echo "mnrun: $mnrun_why" >&2
  exit 122
}

mnrun_runs() { # whether the job goes on, or nobody knows better
  local own=$'\n'"JobId=$SLURM_JOB_ID [^"$'\n'"]*" # of an array whose own id it is there is a line for each task
  # deaf: the signal for whose sake we ask comes to every process of the script, and would be taken for no answer
  mnrun_said=$(trap '' HUP INT QUIT TERM USR1 USR2 ALRM && scontrol -o show job "$SLURM_JOB_ID" 2>/dev/null) || return 0
  [[ ! $'\n'$mnrun_said =~ $own ]] || mnrun_said=${BASH_REMATCH[0]}
  [[ $mnrun_said != *PreemptTime=[0-9]* ]] || mnrun_preempted=1 # in its grace time, after which Slurm ends it
  [[ $mnrun_said =~ JobState=(RUNNING|SUSPENDED|SIGNALING|RESIZING) ]] # as schedulers/slurm/steps.py
}

mnrun_hold() { # SIGNAL, before the program has begun: what is for the program waits for it, as does a TERM that only warns
  case $1 in
    TERM) ! mnrun_runs || [[ -n $mnrun_preempted ]] || { mnrun_early+=' TERM' && return; } ;;
    USR1 | USR2 | ALRM | CONT) mnrun_early+=" $1" && return ;;
  esac
  mnrun_why="ended by SIG$1 before the program began"
  [[ -z $mnrun_preempted && $mnrun_said != *Restarts=$((mnrun_restart + 1))* ]] || mnrun_why=requeued
  exit $((128 + $(kill -l "$1")))
}

# Of the job that handed this one in, where one did: the mark of all that ends with that, and a directory that goes with it.
unset MNRUN_JOB_ID MNRUN_JOB_START
case ${TMPDIR-} in /tmp/mnrun.*) unset TMPDIR ;; esac

mnrun_restart=${SLURM_RESTART_COUNT:-0} mnrun_why='' mnrun_early='' mnrun_said='' mnrun_preempted=''
mnrun_starts=$mnrun_jobs/${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}
mnrun_record=$mnrun_starts/$mnrun_restart
mnrun_began '' 2>/dev/null || : # walk.sh says that it cannot be written
trap 'mnrun_ended "$?" "$mnrun_why"' EXIT
for mnrun_signal in TERM INT HUP QUIT USR1 USR2 ALRM CONT; do
  # shellcheck disable=SC2064  # its name now
  trap "mnrun_hold $mnrun_signal" "$mnrun_signal"
done

# shellcheck shell=bash disable=SC2154  # the guard's and job.sh's
# The guard sources this file on the node, after processes.sh. It hands signals on to the program.

deaf() { trap '' HUP INT TERM USR1 USR2; } # Slurm sends a step's signal to every process of the step

kill_each() { # SIGNAL FILE…: Signal all processes that these files name, at the same time
  local file pid start names pids=()
  for file in "${@:2}"; do
    read -r pid start names <"$file" || continue
    if outer "$pid" "$start" "$names"; then pids+=("$REPLY"); fi
  done
  ((${#pids[@]} == 0)) || kill -s "$1" "${pids[@]}" 2>/dev/null || true
}

pass_on() { # SIGNAL: Forward it to the program
  local ranks=(pid.[0-9]*)
  if [[ -e ${ranks[0]} ]]; then
    kill_each "$1" "${ranks[@]}"
  elif [[ -e pid.head ]]; then
    kill_each "$1" pid.head
  fi
}

warned() { # SIGNAL: Pass the scheduler's warning on to the program and to the launcher, which asks whether the job is over
  say warned
  # A live launcher soon answers. KillWait in slurm.conf, the time from TERM to KILL, is 30 s by default.
  [[ -z $mnrun_silence || -n $mnrun_beat ]] || mnrun_silence=15
  sent "$1"
}

declare -A mnrun_heard=()
sent() { # SIGNAL: Forward a signal that the scheduler sent to this step
  # Ranks or an mpirun that are steps themselves have received the signal already.
  # A TERM comes twice where the launcher runs in a step, because the launcher's srun forwards it too.
  ((SECONDS > ${mnrun_heard[$1]:--9} + 2)) || return 0
  mnrun_heard[$1]=$SECONDS
  [[ -n ${mnrun_went-} && -n $mnrun_connect && $mnrun_shell != terminal ]] || return 0
  # In a trap, bash 5.2 would give the reads of pass_on the time limit of the interrupted read. So a subshell runs it.
  # The same signal may reach that subshell before `deaf`, and end it. So it is tried again.
  for _ in {1..9}; do
    if (deaf; pass_on "$1" || true); then break; fi
  done
}

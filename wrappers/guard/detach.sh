# shellcheck shell=bash
# The guard and head.sh source this file on the node, in the job's directory, after memory.sh.

detach() { # WORDS: Run WORDS outside the scheduler's step, and set mnrun_code to their exit code
  # At some sites a signal to a step reaches all descendants of the step. Such a signal would end MPI's daemons, or the
  # process that keeps an image mounted.
  # The guard receives the signal too, and forwards it to the program. The guard also ends the processes of WORDS.
  # The caller has a trap for such signals.
  # A variable that hides one of the user's would change the environment of WORDS, so all names begin with mnrun_.
  exec {mnrun_in}<&0 {mnrun_out}>&1
  # shellcheck disable=SC2016  # its own words
  mnrun_run='mnrun_in=$1 mnrun_out=$2 mnrun_code=0
    "${@:3}" <&"$mnrun_in" >&"$mnrun_out" {mnrun_in}<&- {mnrun_out}>&- || mnrun_code=$?; echo "$mnrun_code"'
  read -r mnrun_code < <(exec setsid --fork bash -p -c "$mnrun_run" bash "$mnrun_in" "$mnrun_out" "$@") || true
  mnrun_code=${mnrun_code:-137} # a killed shell has written no code
  ((mnrun_code <= 128)) || memory_note
}

last_words() { # Print the last lines of the container's output, as words for the launcher
  local line
  while read -r line; do echo "log ${line:0:500}"; done < <(tail -n 5 serve.log 2>/dev/null)
}

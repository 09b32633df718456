#!/bin/bash
# The guard runs `bash -p detach.sh WORDS…` on the node. It runs WORDS outside the scheduler's step, and exits with
# their exit code.
# At some sites a signal to a step reaches all descendants of the step. Such a signal would end MPI's daemons, or the
# process that keeps an image mounted.
# The guard receives the signal too, and forwards it to the program. The guard also ends the processes of WORDS.
set -euo pipefail
setsid --fork true 2>/dev/null || exec "$@" # util-linux before 2.27 has no `setsid --fork`
exec {mnrun_in}<&0 {mnrun_out}>&1
trap : HUP INT QUIT TERM USR1 USR2
# shellcheck disable=SC2016  # its own words
mnrun_code='' mnrun_run='mnrun_in=$1 mnrun_out=$2 mnrun_code=0
  "${@:3}" <&"$mnrun_in" >&"$mnrun_out" {mnrun_in}<&- {mnrun_out}>&- || mnrun_code=$?; echo "$mnrun_code"'
read -r mnrun_code < <(setsid --fork bash -p -c "$mnrun_run" bash "$mnrun_in" "$mnrun_out" "$@") || true
mnrun_code=${mnrun_code:-137} # a killed shell has written no code
if ((mnrun_code > 128)) && [[ -r memory.sh ]]; then # the shell is still in the job's directory
  source ./memory.sh
  memory_note
fi
exit "$mnrun_code"

#!/bin/bash
# `detach.sh WORDS…` runs WORDS as no child of the scheduler's step, and leaves with their code. At some sites a
# signal to a step reaches all that descends from it: it would end MPI's daemons, or what keeps an image mounted.
# The guard, which hears it too, hands it to the program; and it is the guard who ends what runs here.
set -euo pipefail
setsid --fork true 2>/dev/null || exec "$@" # util-linux before 2.27
exec {mnrun_in}<&0 {mnrun_out}>&1
trap : HUP INT QUIT TERM USR1 USR2
# shellcheck disable=SC2016  # its own words
mnrun_code='' mnrun_run='mnrun_in=$1 mnrun_out=$2 mnrun_code=0
  "${@:3}" <&"$mnrun_in" >&"$mnrun_out" {mnrun_in}<&- {mnrun_out}>&- || mnrun_code=$?; echo "$mnrun_code"'
read -r mnrun_code < <(setsid --fork bash -p -c "$mnrun_run" bash "$mnrun_in" "$mnrun_out" "$@") || true
mnrun_code=${mnrun_code:-137} # no code: killed
if ((mnrun_code > 128)) && [[ -r memory.sh ]]; then # which begins in the job's directory
  source ./memory.sh
  memory_note
fi
exit "$mnrun_code"

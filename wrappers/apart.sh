#!/bin/bash
# `apart.sh WORDS…` runs WORDS as no child of the scheduler's step, and leaves with their code. At some sites a
# signal to a step reaches all that descends from it: it would end MPI's daemons, or what keeps an image mounted.
# The guard, which hears it too, hands it to the program; and it is the guard who ends what runs here.
set -euo pipefail
setsid --fork true 2>/dev/null || exec "$@" # util-linux before 2.27
exec {in}<&0 {out}>&1
trap : HUP INT QUIT TERM USR1 USR2
# shellcheck disable=SC2016  # its own words
code='' run='in=$1 out=$2 code=0; "${@:3}" <&"$in" >&"$out" {in}<&- {out}>&- || code=$?; echo "$code"'
read -r code < <(setsid --fork bash -p -c "$run" bash "$in" "$out" "$@") || true
exit "${code:-137}" # no code: killed

#!/bin/bash
# await.sh starts `head.sh WORDS…` on the job's first node. WORDS are mpirun or the master container.
# Standard input does not go through mpirun, because Open MPI 5.0.7 loses nearly all of an input of more than 4 kB.
# Instead a pipe carries it to rank 0, which runs on this node.
# `set +o posix` unsets this, and it is for the program.
mnrun_posix=(${POSIXLY_CORRECT+env "POSIXLY_CORRECT=$POSIXLY_CORRECT"})
set -euo pipefail +o posix
mnrun_here=$PWD # await.sh has entered this directory
source ./job.sh
if [[ $mnrun_stdin == rank ]]; then
  # `cat` blocks in its open until rank 0 reads. Its standard output is /dev/null, so that the step can end meanwhile.
  # The guard ends it by the job's mark.
  # A signal to the step must not end it.
  sh -c 'trap "" HUP INT QUIT TERM USR1 USR2 && exec cat >"$0"' "$mnrun_here/stdin" <&0 >/dev/null 2>&1 &
  exec </dev/null
fi
# shellcheck disable=SC2016  # its own words
# The guard forwards signals to this program.
mnrun_own=("${mnrun_posix[@]}" sh -c '. ./pid.sh && mnrun_self && echo "$mnrun_process" >pid.head && exec "$@"' sh "$@")
if [[ -n $mnrun_connect && $mnrun_shell == terminal ]]; then exec "${mnrun_own[@]}"; fi
source ./memory.sh
source ./detach.sh
trap : HUP INT QUIT TERM USR1 USR2 # these signals reach each process of the step
if [[ -n $mnrun_connect ]]; then
  # wait_go.sh gives the program the output and the errors of this step, by the files 8 and 9. Until then they are the
  # container runtime's.
  [[ -z $mnrun_joined ]] || exec 8>&1 9>&2 >>serve.log 2>&1
  detach "${mnrun_own[@]}"
  if [[ -n $mnrun_joined && ! -e pid.serve ]]; then { last_words && echo "gone $mnrun_code"; } 1<>up; fi
else
  mnrun_code=0
  "${mnrun_own[@]}" || mnrun_code=$?
  ((mnrun_code <= 128)) || memory_note
fi
exit "$mnrun_code"

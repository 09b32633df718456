#!/bin/bash
# The launcher runs `build_group.sh DIRECTORY WORDS…` on this machine, as the leader of a process group. It runs WORDS
# in DIRECTORY. If mnrun is killed, the kernel sends a TERM to this shell alone (prctl(2), PR_SET_PDEATHSIG).
set -u
cd -- "$1" || exit 1
shift
trap 'trap "" TERM; kill -TERM 0' TERM
"$@" <&0 & # without the redirection, bash gives a background command no input
pid=$! code=0
while kill -0 "$pid" 2>/dev/null; do # a signal ends `wait`, and not the builder
  wait "$pid" || true
done
wait "$pid" || code=$?
exit "$code"

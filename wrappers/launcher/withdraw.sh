#!/bin/bash
# The launcher runs `withdraw.sh salloc WORDS…` to get nodes of its own (schedulers/slurm/allocate.py). Its exit code is
# that of salloc. The launcher sends a HUP to salloc and to this shell alike, to withdraw the request.
# A TERM says that the launcher was killed. salloc gets its HUP a second later. It would end a job that has its nodes
# with the code 0 at once (24.11, src/salloc/salloc.c). In that second allocation.sh ends such a job with a code of its own.
set -u
trap '' HUP
trap 'sleep 1; kill -HUP %1' TERM
(trap - HUP && exec "$@") <&0 &
wait %1

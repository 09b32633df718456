#!/bin/bash
# The launcher runs `withdraw.sh salloc WORDS…` to get nodes of its own (schedulers/slurm/allocate.py). Its exit code is
# that of salloc. The launcher sends a HUP to salloc and to this shell alike, to withdraw the request.
# A TERM says that the launcher was killed. At a HUP, salloc ends a job that has its nodes, with the code 0 (24.11,
# src/salloc/salloc.c). So its HUP comes a second later. Until then allocation.sh has seen that mnrun is gone, and has
# ended the job with 137. On a busy node, that takes longer.
set -u
trap '' HUP
trap 'for _ in {1..10}; do sleep 1; pgrep -P $! >/dev/null || break; done; kill -HUP %1' TERM
(trap - HUP && exec "$@") <&0 &
wait %1

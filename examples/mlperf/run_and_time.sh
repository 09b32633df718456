#!/bin/sh
# On every rank, in the container: train with the seed of the experiment. Rank 0 writes the times and the result.
set -eu
if [ "$RANK" != 0 ]; then exec python3 train.py >/dev/null; fi
start=$(date +%s)
echo "STARTING TIMING RUN AT $(date -u '+%Y-%m-%d %I:%M:%S %p')"
python3 train.py
end=$(date +%s)
echo "ENDING TIMING RUN AT $(date -u '+%Y-%m-%d %I:%M:%S %p')"
echo "RESULT,LINE_FIT,$SEED,$((end - start)),$(id -un),$(date -u -d "@$start" '+%Y-%m-%d %I:%M:%S %p')"

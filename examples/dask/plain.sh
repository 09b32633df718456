#!/bin/sh
# On every rank: `mnrun --launcher env … -- sh plain.sh PROGRAM`. Rank 0 has the scheduler and the program, which gets
# the scheduler's address as its argument. All other ranks are workers, and end with the scheduler.
set -eu
address=tcp://$MASTER_ADDR:$MASTER_PORT
if [ "$RANK" = 0 ]; then
  dask scheduler --host "$MASTER_ADDR" --port "$MASTER_PORT" --no-dashboard >scheduler.log 2>&1 &
  python3 "$1" "$address"
  wait
else
  exec dask worker "$address" --name "$RANK" --nthreads 1 --no-nanny --no-dashboard >"worker.$RANK.log" 2>&1
fi

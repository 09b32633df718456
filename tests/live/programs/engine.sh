#!/bin/sh
# An engine on several nodes, as `sh engine.sh NODE_RANK NNODES HEAD PORT FOLDER [WORD]`. Workers say in FOLDER that they
# are there. The first node answers HTTP once all are. With the WORD late, a worker never comes.
echo "node $1 of $2, for $3 ${6-}"
if [ "$1" != 0 ]; then
  [ "${6-}" != late ] || { echo "loading weights"; exec sleep 600; }
  : >"$5/there.$1" && exec sleep 600
fi
node=1
while [ "$node" -lt "$2" ]; do
  if [ -e "$5/there.$node" ]; then node=$((node + 1)); else sleep 0.2; fi
done
exec python3 "$5/server.py" "$4" 0

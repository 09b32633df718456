# shellcheck shell=sh disable=SC3067  # dash, bash and busybox have -O
# This text stands in front of into.sh in the process that writes to a node's lease under pdsh
# (schedulers/hosts/pdsh.py). It waits up to 60 s until lease.sh has made its directory.
# It does not wait for a directory of that name that another user owns.
i=0
until [ -e "$0/own" ] || [ -L "$0" ] || { [ -e "$0" ] && [ ! -O "$0" ]; }; do
  i=$((i + 1))
  [ $i -lt 600 ] || exit 1
  sleep 0.1
done

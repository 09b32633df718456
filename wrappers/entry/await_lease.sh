# shellcheck shell=sh disable=SC3067  # dash, bash and busybox have -O
# Stands in front of into.sh for who pours into the lease of a node under pdsh (schedulers/hosts/pdsh.py): waits up to
# 60 s until lease.sh has made its directory. Nobody waits for a directory of that name that is somebody else's.
i=0
until [ -e "$0/own" ] || [ -L "$0" ] || { [ -e "$0" ] && [ ! -O "$0" ]; }; do
  i=$((i + 1))
  [ $i -lt 600 ] || exit 1
  sleep 0.1
done

#!/bin/bash
# A worker of an MPIJob or a TrainJob: `pod_sshd.sh KEYS PORT MEMLOCK` in its pod. It becomes the sshd of the job.
set -euo pipefail
keys=$1 port=$2
fail() {
  echo "mnrun: $1" >&2
  exit 1
}
[ "$3" = any ] || [ "$(ulimit -l)" = "$3" ] ||
  echo "mnrun: memlock is $(ulimit -l) kB here, and RDMA needs $3: an admin raises it in the container runtime" >&2
id -un &>/dev/null || fail "the image has no user $UID, whom ssh needs; use --kubernetes security=root, or a user's ids"
PATH+=:/usr/sbin:/sbin
sshd=$(type -P sshd) || fail 'there is no sshd in the image; install openssh-server, or use mnrun run, which needs none'
config=()
if [ "$UID" = 0 ]; then mkdir -p /run/sshd; fi # Debian's sshd wants it
if [ "$UID" != 0 ] || [ ! -r /etc/ssh/sshd_config ]; then config=(-f /dev/null); fi
key=$(mktemp) # sshd refuses a key that its group may read
cat "$keys/id_rsa" >"$key"
exec "$sshd" -De "${config[@]}" -p "$port" -h "$key" -o StrictModes=no -o PidFile=none \
  -o "AuthorizedKeysFile=$keys/authorized_keys"

#!/bin/sh
# `start.sh WORDS…` starts a job's ranks where no MPI does: ranks.sh on every node, here and by the `ssh` that reaches
# the others' containers. It leaves with the code of the first node whose ranks failed; the others' end with the job.
set -u
here=${0%/*}
. "$here/job.sh"

free() { # a port of those that the nodes' firewall lets through, on which nobody listens here
  # shellcheck disable=SC2154  # job.sh
  from=${mnrun_ports%-*}
  count=$((${mnrun_ports#*-} - from + 1))
  taken=" $(sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) .*/\1/p' /proc/net/tcp /proc/net/tcp6 2>/dev/null | tr '\n' ' ')"
  # shellcheck disable=SC2154  # job.sh; each job starts to look at a place of its own
  start=$(printf '%s' "$mnrun_id" | cksum | cut -d' ' -f1)
  tried=0
  while [ "$tried" -lt "$count" ]; do
    port=$((from + (start + tried) % count))
    case $taken in *" $(printf %04X "$port") "*) ;; *) echo "$port" && return ;; esac
    tried=$((tried + 1))
  done
  return 1
}

quoted() { # WORDS, for the shell at the other end of ssh
  for word; do
    word=$(printf '%s.' "$word" | sed "s/'/'\\\\''/g") # the dot keeps newlines at its end
    printf "'%s' " "${word%.}"
  done
}

if ! port=$(free); then
  echo "fail no free port in $mnrun_ports for the ranks to meet at" 1<>"$here/up"
  exit 1
fi
address=$(cat "$here/own.address")
set -- "${address:-$(uname -n)}" "$port" "$@"
words=$(quoted "$@")
nodes=$(grep -c . "$here/layout")
size=$(awk '{ ranks += $2 } END { print ranks }' "$here/layout")

mkfifo "$here/tmp/ended"
exec 3<>"$here/tmp/ended" 4>&2 2>/dev/null # a shell says `Terminated` of what others ended
node=0 first=0
while read -r name ranks; do
  place="$node $nodes $first $ranks $size"
  {
    if [ "$node" = 0 ]; then
      # shellcheck disable=SC2086  # five numbers
      sh "$here/ranks.sh" $place "$@" 2>&4 3>&- 4>&-
    else
      "$here/bin/ssh" "$name" "exec sh $here/ranks.sh $place $words" 2>&4 3>&- 4>&-
    fi
    echo $? >&3
  } </dev/null &
  node=$((node + 1)) first=$((first + ranks))
done <"$here/layout"
while [ "$node" -gt 0 ]; do
  read -r code <&3
  if [ "$code" != 0 ]; then exit "$code"; fi
  node=$((node - 1))
done

#!/bin/sh
# `start.sh WORDS…` starts a job's ranks where no MPI does: ranks.sh on every node, here and by the `ssh` that reaches
# the others' containers. It leaves with the code of the first node whose ranks failed; the others' end with the job.
# Standard output goes on in whole lines, as srun's does; errors as they come (a progress bar has no line's end), but
# for --label.
set -u
here=${0%/*}
. "$here/job.sh"
. "$here/ports.sh"

quoted() { # WORDS, for the shell at the other end of ssh
  for word; do
    word=$(printf '%s.' "$word" | sed "s/'/'\\\\''/g") # the dot keeps newlines at its end
    printf "'%s' " "${word%.}"
  done
}

port=$(ports 1)
if [ -z "$port" ]; then
  # shellcheck disable=SC2154  # job.sh
  echo "fail no free port in $mnrun_ports for the ranks to meet at" 1<>"$here/up"
  exit 1
fi
address=$(cat "$here/own.address")
set -- "${address:-$(uname -n)}" "$port" "$@"
words=$(quoted "$@")
nodes=0 size=0
while read -r _ ranks; do
  nodes=$((nodes + 1)) size=$((size + ranks))
done <"$here/layout"

start() { # a node's ranks
  if [ "$node" = 0 ]; then
    # shellcheck disable=SC2086  # five numbers
    sh "$here/ranks.sh" $place "$@"
  else
    "$here/bin/ssh" "$name" "exec sh $here/ranks.sh $place $words"
  fi 3>&- 4>&-
  echo $? >"$here/tmp/code.$node"
}

whole() { # lines
  trap '' HUP INT QUIT TERM USR1 USR2 ALRM # which are for the ranks
  if command -v stdbuf >/dev/null; then exec env LC_ALL=C stdbuf -oL sed ''; fi
  exec cat
}

mkfifo "$here/tmp/ended"
exec 3<>"$here/tmp/ended" 4>&2 2>/dev/null # a shell says `Terminated` of what others ended
node=0 first=0
while read -r name ranks; do
  place="$node $nodes $first $ranks $size"
  {
    # shellcheck disable=SC2154  # job.sh
    if [ -n "$mnrun_label" ]; then
      { start "$@" 2>&1 >&5 5>&- | whole >&4 5>&-; } 5>&1 | whole
    else
      start "$@" 2>&4 | whole
    fi
    cat "$here/tmp/code.$node" >&3 || echo 1 >&3 # only now, when all has been said
  } </dev/null &
  node=$((node + 1)) first=$((first + ranks))
done <"$here/layout"
while [ "$nodes" -gt 0 ]; do
  read -r code <&3
  if [ "$code" != 0 ]; then exit "$code"; fi
  nodes=$((nodes - 1))
done

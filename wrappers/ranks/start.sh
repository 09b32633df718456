#!/bin/sh
# `start.sh WORDS…` starts a job's ranks where no MPI does: start_node.sh on every node, here and by the `ssh` that reaches
# the others' containers. It leaves with the code of the first node whose ranks failed; the others' end with the job.
# What several nodes say goes on in whole lines, as with srun; errors as they come, as a progress bar does.
set -u
here=${0%/*}
. "$here/job.sh"
. "$here/ports.sh"

quoted() { # WORDS, for a shell: however many they are, without a process of its own
  for word; do
    while :; do
      case $word in *\'*) ;; *) break ;; esac
      printf "'%s'\\\\'" "${word%%\'*}"
      word=${word#*\'}
    done
    printf "'%s' " "$word"
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
nodes=0 size=0
while read -r _ ranks; do
  nodes=$((nodes + 1)) size=$((size + ranks))
done <"$here/layout"

# What is more than 128 kB can be no word of ssh's: it goes to the others as a file.
if [ "$nodes" != 1 ]; then quoted "$@" >"$here/ranks.words"; fi

start() { # a node's ranks
  if [ "$node" = 0 ]; then
    # shellcheck disable=SC2086  # five numbers
    sh "$here/start_node.sh" $place "$@"
  else
    "$here/bin/ssh" "$name" "exec sh $here/start_node.sh $place" <"$here/ranks.words"
  fi 2>&4 3>&- 4>&-
  code=$?
}

whole() { # lines
  trap '' HUP INT QUIT TERM USR1 USR2 ALRM # which are for the ranks
  exec env LC_ALL=C stdbuf -oL sed -n "/$mark\$/!{p;d};s/$mark\$//;/./p;q" 3>&- 4>&-
}

mark=$(printf '\001%s ended\001' "${here##*/}")
mkfifo "$here/tmp/ended"
exec 3<>"$here/tmp/ended" 4>&2 2>/dev/null # a shell says `Terminated` of what others ended
stdbuf='' node=0 first=0
if [ "$nodes" != 1 ] && sed --version | grep -q "(GNU sed)"; then stdbuf=$(command -v stdbuf); fi # others are late
while read -r name ranks; do
  place="$node $nodes $first $ranks $size"
  {
    said=$here/said.$node
    if [ -n "$stdbuf" ] && mkfifo "$said"; then
      whole <"$said" &
      reader=$!
      start "$@" >"$said"
      { sleep 2; echo "$mark" 1<>"$said"; } >/dev/null 4>&- & # what a rank has left may hold it
      wait "$reader"
    else
      start "$@"
    fi
    echo "$code" >&3
  } </dev/null &
  node=$((node + 1)) first=$((first + ranks))
done <"$here/layout"
while [ "$nodes" -gt 0 ]; do
  read -r code <&3
  if [ "$code" != 0 ]; then exit "$code"; fi
  nodes=$((nodes - 1))
done

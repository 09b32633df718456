#!/bin/sh
# wait_go.sh becomes `start.sh WORDS…` in the first node's container, where mnrun starts the ranks without an MPI.
# It runs start_node.sh on every node, and reaches the other containers by `ssh`. It exits with the code of the first
# node whose ranks failed. The other ranks end with the job.
# With several nodes, standard output goes on in whole lines, as with srun. Standard error is not held back, so that a
# progress bar works.
set -u
trap : USR1 USR2 # for the ranks, which do not run yet
here=${0%/*}
. "$here/job.sh"
. "$here/ports.sh"

quoted() { # WORDS: Print WORDS quoted for a shell
  # It starts no process, however many words there are.
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
  echo "fail no free port in $mnrun_ports for the ranks' MASTER_PORT" 1<>"$here/up"
  exit 1
fi
read -r address <"$here/own.address"
set -- "${address:-$(uname -n)}" "$port" "$@"
nodes=0 size=0
while read -r _ ranks; do
  nodes=$((nodes + 1)) size=$((size + ranks))
done <"$here/layout"

# A word of ssh cannot be longer than 128 kB. So the words go to the other nodes as a file.
if [ "$nodes" != 1 ]; then quoted "$@" >"$here/ranks.words"; fi

start() { # Start the ranks of one node
  if [ "$node" = 0 ]; then
    # shellcheck disable=SC2086  # five numbers
    sh "$here/start_node.sh" $place "$@"
  else
    "$here/bin/ssh" "$name" "exec sh $here/start_node.sh $place" <"$here/ranks.words"
  fi 2>&4 3>&- 4>&-
  code=$?
}

whole() { # Forward whole lines
  trap '' HUP INT QUIT TERM USR1 USR2 ALRM # these signals are for the ranks
  exec env LC_ALL=C stdbuf -oL sed -n "/$mark\$/!{p;d};s/$mark\$//;/./p;q" 3>&- 4>&-
}

mark=$(printf '\001%s ended\001' "${here##*/}")
mkfifo "$here/tmp/ended"
exec 3<>"$here/tmp/ended" 4>&2 2>/dev/null # the shell says `Terminated` of processes that others end
stdbuf='' node=0 first=0
# A sed other than GNU's prints its lines late.
if [ "$nodes" != 1 ] && sed --version | grep -q "(GNU sed)"; then stdbuf=$(command -v stdbuf); fi
while read -r name ranks; do
  place="$node $nodes $first $ranks $size"
  {
    said=$here/said.$node
    if [ -n "$stdbuf" ] && mkfifo "$said"; then
      whole <"$said" &
      reader=$!
      start "$@" >"$said"
      { sleep 2; echo "$mark" 1<>"$said"; } >/dev/null 4>&- & # a process that a rank has left may hold the pipe
      wait "$reader"
    else
      start "$@"
    fi
    echo "$code" >&3
  } </dev/null &
  node=$((node + 1)) first=$((first + ranks))
done <"$here/layout"
while [ "$nodes" -gt 0 ]; do
  until read -r code <&3; do :; done # a signal may interrupt it
  if [ "$code" != 0 ]; then exit "$code"; fi
  nodes=$((nodes - 1))
done

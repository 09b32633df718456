#!/bin/sh
# wait_go.sh becomes `start.sh WORDS…` in the first node's container, where mnrun starts the ranks without an MPI.
# It runs start_node.sh on every node, by `ssh`. It exits with the code of the first node whose ranks failed. The other
# ranks end with the job.
# With several nodes, standard output goes on in whole lines, as with srun. Standard error is not held back, so that a
# progress bar works.
set -u
unset TMOUT # with the user's, bash would end a `read`
trap : USR1 USR2 # for the ranks, which do not run yet
mnrun_here=${0%/*}
. "$mnrun_here/job.sh"

quoted() { # WORDS: Print WORDS quoted for a shell
  # It starts no process, however many words there are.
  for mnrun_word; do
    while :; do
      case $mnrun_word in *\'*) ;; *) break ;; esac
      printf "'%s'\\\\'" "${mnrun_word%%\'*}"
      mnrun_word=${mnrun_word#*\'}
    done
    printf "'%s' " "$mnrun_word"
  done
}

if ! { read -r mnrun_address mnrun_port <"$mnrun_here/master"; } 2>/dev/null; then
  echo "fail no free port in $mnrun_ports for the ranks' MASTER_PORT" 1<>"$mnrun_here/up"
  exit 1
fi
set -- "$mnrun_address" "$mnrun_port" "$@"
mnrun_secret=''
if [ "$mnrun_starter" = ray ]; then # without a token, whoever reaches its port may run programs
  read -r mnrun_secret </proc/sys/kernel/random/uuid
  mnrun_secret="RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$mnrun_secret"
  # shellcheck disable=SC2163,SC2086  # two settings
  export $mnrun_secret
fi
mnrun_nnodes=0 mnrun_size=0
while read -r _ mnrun_ranks; do
  mnrun_nnodes=$((mnrun_nnodes + 1)) mnrun_size=$((mnrun_size + mnrun_ranks))
done <"$mnrun_here/layout"

# A word of ssh cannot be longer than 128 kB. So the words go to the other nodes as a file.
if [ "$mnrun_nnodes" != 1 ]; then
  {
    quoted "$@"
    if [ -n "$mnrun_secret" ]; then echo "; export $mnrun_secret"; fi
  } >"$mnrun_here/ranks.words"
fi

start() { # Start the ranks of one node
  if [ "$mnrun_node" = 0 ]; then
    # shellcheck disable=SC2086  # five numbers
    mnrun_errors=4 sh "$mnrun_here/start_node.sh" $mnrun_place "$@"
  else
    "$mnrun_here/bin/ssh" "$mnrun_name" "exec sh $mnrun_here/start_node.sh $mnrun_place" <"$mnrun_here/ranks.words" 2>&4 4>&-
  fi 3>&-
  mnrun_code=$?
}

whole() { # Forward whole lines
  trap '' HUP INT QUIT TERM USR1 USR2 ALRM # these signals are for the ranks
  LC_ALL=C
  export LC_ALL
  exec stdbuf -oL sed -n "/$mnrun_mark\$/!{p;d};s/$mnrun_mark\$//;/./p;q" 3>&- 4>&-
}

mnrun_mark=$(printf '\001%s ended\001' "${mnrun_here##*/}")
exec 3<>"$mnrun_here/ended" 4>&2 2>/dev/null # the shell says `Terminated` of processes that others end
mnrun_stdbuf='' mnrun_node=0 mnrun_first=0
# A sed other than GNU's prints its lines late.
if [ "$mnrun_nnodes" != 1 ]; then
  case $(sed --version) in *"(GNU sed)"*) mnrun_stdbuf=$(command -v stdbuf) ;; esac
fi
while read -r mnrun_name mnrun_ranks; do
  mnrun_place="$mnrun_node $mnrun_nnodes $mnrun_first $mnrun_ranks $mnrun_size"
  {
    mnrun_said=$mnrun_here/said.$mnrun_node
    if [ -n "$mnrun_stdbuf" ] && mkfifo "$mnrun_said"; then
      whole <"$mnrun_said" &
      mnrun_reader=$!
      start "$@" >"$mnrun_said"
      # A process that a rank has left may hold the pipe.
      { sleep 2; echo "$mnrun_mark" 1<>"$mnrun_said"; } >/dev/null 4>&- &
      wait "$mnrun_reader"
    else
      start "$@"
    fi
    echo "$mnrun_code $mnrun_node $mnrun_name" >&3
  } </dev/null &
  mnrun_node=$((mnrun_node + 1)) mnrun_first=$((mnrun_first + mnrun_ranks))
done <"$mnrun_here/layout"
while [ "$mnrun_nnodes" -gt 0 ]; do
  until read -r mnrun_code mnrun_node mnrun_name <&3; do :; done # a signal may interrupt it
  # A cluster of Ray ends with any of its nodes, and so does a service: vLLM's workers end with 0 where their peer dies.
  if [ "$mnrun_code" = 0 ] && [ -n "$mnrun_serves" ] && [ "$mnrun_node" != 0 ]; then
    echo "mnrun: the program of $mnrun_name ended with 0, so the service ends on all nodes" >&4
    mnrun_code=1
  fi
  if [ "$mnrun_code" != 0 ]; then
    # Slurm waits up to 60 s for processes that hold the step's output (seen, 24.11), as ranks on this node do.
    [ ! -p "$mnrun_here/ended.0" ] || echo "peer $mnrun_code" 1<>"$mnrun_here/ended.0"
    exit "$mnrun_code"
  fi
  if [ "$mnrun_starter" = ray ] || [ -n "$mnrun_serves" ]; then exit 0; fi
  mnrun_nnodes=$((mnrun_nnodes - 1))
done

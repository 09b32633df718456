#!/bin/sh
# start.sh runs `start_node.sh NODE NODES FIRST COUNT SIZE [ADDRESS PORT WORDS…]` in the container of each node.
# It starts COUNT of all SIZE ranks, from rank FIRST on, or one torchrun that starts them, or a node of Ray with COUNT
# CPUs. They meet at ADDRESS:PORT.
# Without ADDRESS, it reads the rest from standard input, quoted for a shell.
# When a rank fails, it reports that to the guard, ends the other ranks here and exits with the failed rank's code.
set -u
unset TMOUT # with the user's, bash would end a `read`
mnrun_here=${0%/*}
. "$mnrun_here/job.sh"
for mnrun_it in $mnrun_warnings; do [ "$mnrun_it" = TERM ] || trap '' "$mnrun_it"; done # as in rank.sh
mnrun_node=$1 mnrun_nnodes=$2 mnrun_first=$3 mnrun_count=$4 mnrun_size=$5
shift 5
if [ $# = 0 ]; then
  mnrun_words=$(cat) || exit 125
  eval "set -- $mnrun_words"
  unset mnrun_words
fi
export NODE_RANK="$mnrun_node"
if [ "$mnrun_starter" = ray ]; then export RAY_ADDRESS="$1:$2"; else export MASTER_ADDR="$1" MASTER_PORT="$2"; fi
shift 2

: >"$mnrun_here/without_mpi" # the guard passes a signal on to the ranks, and not to an mpirun
if [ "$mnrun_starter" = torchrun ]; then
  # The variables stand for torchrun's options, and the user's options override them (torch.distributed.run).
  export PET_NPROC_PER_NODE="$mnrun_count"
  case " $* " in
    *' --standalone '*) ;; # each node has a group of its own, with --force
    *)
      export PET_NNODES="$mnrun_nnodes" PET_NODE_RANK="$mnrun_node"
      export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT" ;;
  esac
  mnrun_first=$mnrun_node mnrun_count=1
elif [ "$mnrun_starter" = ray ]; then
  export mnrun_ray="$mnrun_count $mnrun_nnodes" # for ray.sh
  mnrun_first=$mnrun_node mnrun_count=1
else
  export WORLD_SIZE="$mnrun_size" LOCAL_WORLD_SIZE="$mnrun_count"
  export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT" JAX_NUM_PROCESSES="$mnrun_size"
  export HOROVOD_SIZE="$mnrun_size" HOROVOD_LOCAL_SIZE="$mnrun_count"
  export HOROVOD_CROSS_RANK="$mnrun_node" HOROVOD_CROSS_SIZE="$mnrun_nnodes"
fi

# A shell without a terminal starts background processes that ignore SIGINT. SIGINT is for the program.
mnrun_plain=''
if env --default-signal >/dev/null 2>&1; then mnrun_plain='env --default-signal'; fi
export MNRUN_JOB_START="$mnrun_node.$$." # all descendants of these ranks carry this mark
# A shell says `Terminated` of processes that others end, into what is the standard error of the command in dash. So all
# of them get /dev/null, and rank.sh takes the file 4.
[ -n "${mnrun_errors-}" ] || exec 4>&2 2>/dev/null
export mnrun_errors=4
exec 3<>"$mnrun_here/ended.$mnrun_node"
mnrun_local=0
while [ "$mnrun_local" -lt "$mnrun_count" ]; do
  mnrun_rank=$((mnrun_first + mnrun_local))
  {
    case $mnrun_starter in torchrun | ray) ;; *)
      export RANK="$mnrun_rank" LOCAL_RANK="$mnrun_local"
      export JAX_PROCESS_ID="$mnrun_rank" HOROVOD_RANK="$mnrun_rank" HOROVOD_LOCAL_RANK="$mnrun_local" ;;
    esac
    $mnrun_plain "$@" 3>&-
    mnrun_code=$?
    if [ "$mnrun_starter" = ray ]; then
      # Ray looks once a second for processes of its own that have ended, which may be the reason for a failure.
      [ "$mnrun_code" = 0 ] || sleep 2
      : >"$mnrun_here/over" # from now on, the end of Ray is no news
    fi
    echo "$mnrun_rank $mnrun_code" >&3
  } </dev/null &
  mnrun_local=$((mnrun_local + 1))
done

each() { # SIGNAL: Signal the ranks of this node, as far as they have noted themselves
  mnrun_pids=''
  for mnrun_note in "$mnrun_here"/pid.[0-9]*; do
    if read -r mnrun_pid mnrun_began _ <"$mnrun_note" && read -r mnrun_stat <"/proc/$mnrun_pid/stat"; then
      # The name of a program may have blanks. The fields from the third on follow its last bracket (proc(5), stat).
      case ${mnrun_stat##*) } in *" $mnrun_began "*) mnrun_pids="$mnrun_pids $mnrun_pid" ;; esac
    fi
  done 2>/dev/null
  # shellcheck disable=SC2086  # pids
  [ -n "$mnrun_pids" ] && kill -s "$1" $mnrun_pids
}

all() { # SIGNAL: Signal the ranks of this node and all their descendants
  # A process of another job of a scheduler does not count, although it may have inherited the mark.
  # The guard ends descendants with the job, where the image has no grep to find them.
  command -v grep >/dev/null || { each "$1"; return $?; }
  mnrun_pids=''
  # shellcheck disable=SC2013  # no blanks in them
  for mnrun_environ in $(grep -slF "MNRUN_JOB_START=$MNRUN_JOB_START" /proc/[0-9]*/environ); do
    for mnrun_job in $(tr '\0' '\n' <"$mnrun_environ" | grep -E "^($mnrun_marks)=."); do
      # shellcheck disable=SC2154  # job.sh
      case " $mnrun_jobs " in *" $mnrun_job "*) ;; *) continue 2 ;; esac
    done
    mnrun_environ=${mnrun_environ#/proc/}
    mnrun_pids="$mnrun_pids ${mnrun_environ%/environ}"
  done 2>/dev/null
  # shellcheck disable=SC2086  # pids
  [ -n "$mnrun_pids" ] && kill -s "$1" $mnrun_pids
}

mnrun_bad=0 mnrun_ending=''
while [ "$mnrun_count" -gt 0 ]; do
  read -r mnrun_rank mnrun_code <&3
  [ "$mnrun_rank" = peer ] || mnrun_count=$((mnrun_count - 1)) # start.sh tells of another node
  if [ "$mnrun_code" != 0 ] && [ "$mnrun_bad" = 0 ]; then
    mnrun_bad=$mnrun_code
    # This report must come before those of ranks on other nodes that miss this rank.
    [ "$mnrun_rank" = peer ] || echo "ended $mnrun_rank $mnrun_code" 1<>"$mnrun_here/up"
    {
      all TERM
      sleep 5
      while all KILL; do sleep 1 || break; done
    } >/dev/null 3>&- 4>&- &
    mnrun_ending=$!
  fi
done
if [ -n "$mnrun_ending" ]; then kill "$mnrun_ending"; fi
all KILL # a process that a rank left in the background would hold the connection, and with it the job
exit "$mnrun_bad"

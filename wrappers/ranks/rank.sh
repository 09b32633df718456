#!/bin/sh
# Every rank starts as `rank.sh [WORDS…]` inside its container, by srun, mpirun or start_node.sh.
# It reports the rank to the guard, and becomes the user's program. So the exit codes 126 and 127 are the shell's.
# It begins in the user's directory with the user's PATH. So it looks for no program of its own by that.
# shellcheck disable=SC2154  # into.sh and join_container.sh have set names
case $0 in
  */rank.sh) mnrun_here=${0%/*} ;; # a process of the job has started it by its name
  *) cd "$mnrun_back" || exit 1 ;; # into.sh has started it
esac
if [ -n "${mnrun_errors-}" ]; then # start_node.sh has started it
  exec 2>&4 4>&-
  unset mnrun_errors
fi
. "$mnrun_here/job.sh"
. "$mnrun_here/pid.sh"
# shellcheck source=/dev/null
[ $# != 0 ] || . "$mnrun_here/words" # it sets them
# Some schedulers warn every process of a job by a signal other than TERM: USR2 before the end, and USR1 before a
# suspension (qsub(1), -notify). It must not end a program that does not catch it.
for mnrun_it in $mnrun_warnings; do [ "$mnrun_it" = TERM ] || trap '' "$mnrun_it"; done
if [ -n "${mnrun_changes-}" ]; then # nsenter has entered the container, and does not know its variables
  eval "$mnrun_changes"
  unset mnrun_changes
fi
if [ "$mnrun_starter" = auto ]; then # start_node.sh marks its ranks, and an mpirun does not
  mnrun_starter=${MNRUN_JOB_START:+env} mnrun_starter=${mnrun_starter:-mpirun}
fi
# shellcheck source=/dev/null
if [ -e "$mnrun_here/step.env" ]; then . "$mnrun_here/step.env"; fi # a rank that the scheduler starts
mnrun_told=1 # whether the starter has told the rank its place
case $mnrun_starter in # this precedes the user's variables, which may have these names
  env) mnrun_rank=$RANK mnrun_size=$WORLD_SIZE mnrun_local=$LOCAL_RANK ;;
  torchrun) mnrun_rank=$NODE_RANK mnrun_size=${PET_NNODES-1} mnrun_local=0 ;;
  ray) mnrun_rank=$NODE_RANK mnrun_size=${mnrun_ray#* } mnrun_local=0 ;;
  *)
    mnrun_rank=${OMPI_COMM_WORLD_RANK-${PMIX_RANK-${PMI_RANK-${MV2_COMM_WORLD_RANK-${mnrun_step_rank-}}}}}
    mnrun_told=${mnrun_rank:+1} mnrun_rank=${mnrun_rank:-0}
    mnrun_size=${OMPI_COMM_WORLD_SIZE-${PMI_SIZE-${mnrun_step_size-1}}}
    mnrun_local=${OMPI_COMM_WORLD_LOCAL_RANK-${MPI_LOCALRANKID-${MV2_COMM_WORLD_LOCAL_RANK-${mnrun_step_local-0}}}}
    ;;
esac
. "$mnrun_here/place.sh"
. "$mnrun_here/user.env"
case ${PYTHONUNBUFFERED:+on}${PYTHONPATH-} in # then Python's lines are whole (lines/sitecustomize.py)
  on"$mnrun_here/lines"*) ;;
  on*) export PYTHONPATH="$mnrun_here/lines${PYTHONPATH:+:$PYTHONPATH}" ;;
esac
umask "$mnrun_umask"
if [ -n "$mnrun_inside" ]; then # Open MPI 4 puts its own directories in front
  . "$mnrun_here/path.sh"
  PATH=$mnrun_here/bin:$PATH
fi
case :$PATH: in
  *":$mnrun_here/out:"*) ;;
  *)
    for mnrun_it in $mnrun_submits; do
      if command -v "$mnrun_it" >/dev/null; then PATH=$mnrun_here/out:$PATH && break; fi
    done ;;
esac

# An MPI that lacks the starter's protocol does not fail. Each of its ranks is "0 of 1".
served() { # KIND: Test whether the starter has given the variables that this kind of MPI needs
  case $1 in
    openmpi) [ -n "${PMIX_RANK-}${OMPI_COMM_WORLD_RANK-}" ] ;;
    mpich | mvapich2 | intelmpi) [ -n "${PMI_RANK-}${PMI_FD-}${PMI_PORT-}" ] ;;
  esac
}
suits() {
  . "$mnrun_here/mpis.sh"
  mnrun_first=$(mpi_of "$(command -v mpirun)")
  served "$mnrun_first" && return 0
  for mnrun_kind in $(mpis | while read -r mnrun_it _; do echo "$mnrun_it"; done); do
    # The program may use another MPI of the image.
    case $mnrun_kind in "$mnrun_first" | unknown | hangs) ;; *) ! served "$mnrun_kind" || return 0 ;; esac
  done
  case $mnrun_first in
    openmpi) mnrun_unfit="the image has Open MPI, which needs PMIx, and $mnrun_judge does not offer that" ;;
    *) mnrun_unfit="the image has MPICH or its kin, which needs PMI, and $mnrun_judge does not offer that" ;;
  esac
  if [ -n "${SINGULARITY_CONTAINER-}" ] && [ -z "${MNRUN_JOB_ID-}" ]; then # clean_env.sh has set it outside
    mnrun_unfit="the container gets no variables of $mnrun_judge, since --containall, --compat or --cleanenv keeps them out"
  fi
  return 1
}
if [ -n "$mnrun_judge" ] && ! suits; then
  echo "fail $mnrun_unfit, so every rank would be 0 of 1: use --mode inside-out" 1<>"$mnrun_here/up"
  exit 1
fi
# shellcheck source=/dev/null
if [ -e "$mnrun_here/server.env" ]; then . "$mnrun_here/server.env"; fi # by which a rank finds the host's mpirun
mnrun_process=''
if [ "$mnrun_starter" != scheduler ]; then
  mnrun_names=''
  if [ -n "$mnrun_inside" ]; then mnrun_namespace; fi
  mnrun_self
  if [ "$mnrun_starter" = env ]; then echo "$mnrun_process" >"$mnrun_here/pid.$mnrun_rank"; fi # start_node.sh ends it
fi
if [ "$mnrun_starter" != ray ]; then # ray.sh reports a node of Ray, once it is in
  echo "rank $mnrun_rank $mnrun_size $mnrun_process" 1<>"$mnrun_here/up"
fi
# Open MPI writes its parameters into this file only as rank 0. A file of any other rank shows that the rank took
# itself for rank 0 of 1. The guard looks for such files at the end.
if [ -n "$mnrun_by_mpi" ] && [ "$mnrun_rank" != 0 ] && [ -z "${OMPI_MCA_mpi_show_mca_params-}" ]; then
  export OMPI_MCA_mpi_show_mca_params=api "OMPI_MCA_mpi_show_mca_params_file=$mnrun_here/alone.$mnrun_rank"
fi

# This chooses the rank's GPUs where srun does not.
if [ "$mnrun_gpu_bind" = closest ]; then
  CUDA_VISIBLE_DEVICES=$(/bin/sh "$mnrun_here/gpu_closest.sh" ${CUDA_VISIBLE_DEVICES+"$CUDA_VISIBLE_DEVICES"})
  export CUDA_VISIBLE_DEVICES
elif [ -n "$mnrun_gpu_bind" ]; then
  if [ -z "${CUDA_VISIBLE_DEVICES+set}" ]; then # without a scheduler, nobody has numbered the node's GPUs
    mnrun_count=0
    for mnrun_gpu in "${mnrun_proc:-/proc}"/driver/nvidia/gpus/*; do
      [ ! -e "$mnrun_gpu" ] || CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-}${CUDA_VISIBLE_DEVICES:+,}$mnrun_count
      mnrun_count=$((mnrun_count + 1))
    done
  fi
  IFS=, mnrun_count=0
  for mnrun_gpu in ${CUDA_VISIBLE_DEVICES-}; do mnrun_count=$((mnrun_count + 1)); done
  mnrun_each=${mnrun_gpu_bind#*:} mnrun_first=0
  case $mnrun_gpu_bind in
    per_task:*) mnrun_first=$((mnrun_local * mnrun_each)) ;;
    *) [ "$mnrun_count" = 0 ] || mnrun_first=$((mnrun_local / mnrun_each % mnrun_count)) mnrun_each=1 ;;
  esac
  if [ $((mnrun_first + mnrun_each)) -gt "$mnrun_count" ]; then
    mnrun_count="$mnrun_count GPU$([ "$mnrun_count" = 1 ] || echo s)"
    echo "fail --gpu-bind $mnrun_gpu_bind: rank $mnrun_rank gets no GPU, since its node has $mnrun_count" 1<>"$mnrun_here/up"
    exit 1
  fi
  mnrun_chosen='' mnrun_count=0
  for mnrun_gpu in $CUDA_VISIBLE_DEVICES; do
    if [ "$mnrun_count" -ge "$mnrun_first" ] && [ "$mnrun_count" -lt $((mnrun_first + mnrun_each)) ]; then
      mnrun_chosen=$mnrun_chosen${mnrun_chosen:+,}$mnrun_gpu
    fi
    mnrun_count=$((mnrun_count + 1))
  done
  unset IFS
  export CUDA_VISIBLE_DEVICES="$mnrun_chosen"
fi

# Open MPI 5 forks a rank and does not wait until the rank has a process group of its own. Where another rank ends in
# that moment, mpirun's daemon kills the group of this one, which is still the daemon's (do_parent in PRRTE 3.0.8). That
# would be mpirun itself, or the node's container. So no program begins before all ranks are there.
if [ "$mnrun_starter" = mpirun ] && [ -n "${PRTE_LAUNCHED-}" ]; then
  TMOUT=0 read -r _ <"$mnrun_here/there" # with the user's TMOUT, bash would end it
fi

# mpirun starts a rank by the physical path. Through a link, PWD has the path that the user typed.
if [ "$mnrun_starter" = scheduler ] || [ . -ef "$mnrun_chdir" ]; then cd "$mnrun_chdir" || exit 1; fi
if [ "$mnrun_stdin" = rank ]; then
  if [ "$mnrun_rank" = 0 ]; then exec <"$mnrun_here/stdin"; else exec </dev/null; fi
fi
if [ -n "$mnrun_split" ]; then
  # Who may write to the directory, too, could have put a link or a pipe there. So each file is made anew: noclobber
  # opens no other file, and follows no link (O_EXCL).
  mnrun_file=$mnrun_split/rank.$mnrun_rank
  for mnrun_it in "$mnrun_file.out" "$mnrun_file.err"; do
    if [ -e "$mnrun_it" ] || [ -L "$mnrun_it" ]; then (cd / && rm -f "$mnrun_it") 2>/dev/null; fi
  done
  set -C
  if command exec >"$mnrun_file.out" 2>"$mnrun_file.err" && [ -f /proc/self/fd/1 ] && [ -f /proc/self/fd/2 ]; then
    set +C
  else
    echo "fail --split-output: rank $mnrun_rank cannot make $mnrun_file.out and .err: something of that name is in the way" 1<>"$mnrun_here/up"
    exit 1
  fi
fi
if [ -n "$mnrun_serves" ]; then . "$mnrun_here/fill.sh"; fi
. "$mnrun_here/program.sh"
mnrun_try "$1"
if [ -n "$mnrun_why" ]; then
  # shellcheck disable=SC2016  # its own words
  set -- /bin/sh -c 'echo "$0" >&2; exit "$1"' "$mnrun_why" "$mnrun_code"
fi
if [ "$mnrun_local" = 0 ]; then set -- /bin/sh "$mnrun_here/transport_debug.sh" "$@"; fi
if [ -n "$mnrun_label" ] && [ -z "$mnrun_split" ]; then set -- /bin/sh "$mnrun_here/label.sh" "$mnrun_rank" "$@"; fi
if [ "$mnrun_starter" != scheduler ]; then exec "$@"; fi

# srun's exit code is the highest of all ranks, also of those that srun itself ended (srun(1), RETURN VALUE). So each
# rank reports `ended` below, and the launcher sees which one ended first, and which ones had a TERM by then.
# Signals are for the program. This shell need not print `Terminated`, because srun does.
trap : HUP INT QUIT USR1 USR2 ALRM
trap mnrun_term=1 TERM
mnrun_term=''
if [ "${PMI_FD-}" != 9 ]; then exec 9>&2 2>/dev/null; fi # Slurm's pmi2 chooses the number of its open file
/bin/sh -c '[ "${PMI_FD-}" = 9 ] || exec 2>&9 9>&-; . "$0/pid.sh"; mnrun_self; echo "pid $1 $mnrun_process" 1<>"$0/up"; shift; exec "$@"' \
  "$mnrun_here" "$mnrun_rank" "$@"
mnrun_code=$?
echo "ended $mnrun_rank $mnrun_code${mnrun_term:+ told}" 1<>"$mnrun_here/up"
exit $mnrun_code

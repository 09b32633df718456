#!/bin/bash -p
# The older script of this name as people call it, carried out by mnrun:
#     salloc -N 2; srun srun_singularity.sh --container=app.sif --script=job.sh
# One task per node. The first runs the job; the others stand by until it ends, and leave with its code.
set -euo pipefail
name=${mnrun_door:-srun_singularity.sh} # its sisters come here too
noderank=${SLURM_PROCID:-0}
for word in "$@"; do [[ $word != --noderank=* ]] || noderank=${word#*=}; done

usage() {
  cat <<END
usage: srun $name --container=IMAGE --script=FILE [OPTIONS] [WORDS FOR THE SCRIPT]

Runs FILE once, in a container on the first of the step's nodes. In it plain \`mpirun ./app\` reaches all nodes,
and so does \`ssh NODE\`; \$hostlist, \$np and \$ENVLIST are set. Start it with one task per node.

  --container=IMAGE      a SIF file or an unpacked directory
  --script=FILE          an executable file; a relative name is one of the current directory
  --datamnts=DIR,…       directories that the container sees under their own names
  --envlist=NAME,…       variables to hand on
  --slots_per_node=N     ranks on each node; by default one per GPU, else one
  --nodelist=NODES       run on these nodes of the step's
  --singopts=WORDS       more words for the container runtime
  --script_help          give the script --help
  -h, --help             this text
  --dockopts=WORDS       the same, of the docker doors; --privileged: all rights
  --workingdir=DIR --noderank=%n   of the pdsh doors: start there; which of the hosts this is
  --sshconfigdir= --sshdport= --iname= --dockname= --ibdevices=   without meaning now: accepted, and said so

mnrun is behind it, and does more: mnrun --help.
END
}

first() { [[ $noderank == 0 ]]; }
note() { ! first || echo "$name: $*" >&2; }
die() { # CODE WORDS…: said once, by the first
  local code=$1
  shift
  note "$@"
  exit "$code"
}

own() { # what one of our options means, in mnrun's words
  local list item
  case $1 in
    --container) image=$2 ;;
    --script) script=$2 ;;
    --script_help) help=(--help) ;;
    --slots_per_node) options+=(--ntasks-per-node "$2" --force) ;; # it knew of no limit but this
    --nodelist) nodelist=$2 ;;
    --singopts | --dockopts) options+=("--container-args=$2") ;;
    --privileged) options+=(--privileged) ;;
    --workingdir) cd "$2" 2>/dev/null || die 2 "--workingdir: there is no $2 on $(uname -n)" ;;
    --noderank) ;;
    --datamnts)
      IFS=, read -ra list <<<"$2"
      for item in ${list[@]+"${list[@]}"}; do [[ -z $item ]] || options+=(--bind "$item"); done ;;
    --envlist)
      IFS=', ' read -ra list <<<"$2"
      for item in ${list[@]+"${list[@]}"}; do
        [[ -n $item ]] || continue
        if [[ ! $item =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]]; then
          die 2 "--envlist: '$item' is not a variable's name"
        elif [[ ! -v $item ]]; then
          note "--envlist: $item is not set here, and left out"
        else
          options+=(-x "$item")
        fi
      done ;;
    --ibdevices) note "$1 means nothing any more: all of /dev/infiniband is there where a node has it" ;;
    --sshconfigdir | --iname | --dockname) note "$1 means nothing any more: keys, configuration and names are each job's own" ;;
    --sshdport) note "$1 means nothing any more: each job takes free ports; MNRUN_PORTS=FROM-TO names the range" ;;
  esac
}

image='' script='' nodelist='' options=() words=() help=()
while (($#)); do
  case $1 in
    -h | --help) ! first || usage; exit 2 ;;
    --script_help | --privileged) own "$1" ;;
    --container=* | --script=* | --slots_per_node=* | --nodelist=* | --singopts=* | --datamnts=* | --envlist=* | \
      --dockopts=* | --workingdir=* | --noderank=* | --ibdevices=* | --dockname=* | \
      --sshconfigdir=* | --sshdport=* | --iname=*) own "${1%%=*}" "${1#*=}" ;;
    --container | --script | --slots_per_node | --nodelist | --singopts | --datamnts | --envlist | \
      --sshconfigdir | --sshdport | --iname) die 2 "$1 has no value: write $1=VALUE" ;;
    *) words+=("$1") ;; # also options: the script's own
  esac
  shift
done
[[ -n $script ]] || die 2 "no script: name one with --script=FILE"
[[ -n $image ]] || die 2 "no image: name one with --container=FILE"

mnrun=$(dirname "$(readlink -f "$0")")/mnrun # the one that this came with, whatever PATH says on a node
[[ -x $mnrun ]] || mnrun=$(command -v mnrun) || die 2 "mnrun is not installed beside $0 on $(uname -n), nor on PATH"

if [[ $name == pdsh_* ]]; then # no scheduler: one of them reaches the others' hosts, which have no more to do
  first || exit 0
  [[ -n ${NODES-} ]] || die 2 "NODES is not set: pdsh -w \$NODES NODES=\$NODES $name --noderank=%n …"
  exec "$mnrun" run --hosts "$NODES" ${options[@]+"${options[@]}"} --mode inside-out --image "$image" \
    --script "$script" -- ${words[@]+"${words[@]}"} ${help[@]+"${help[@]}"}
fi

tasks=${SLURM_STEP_NUM_TASKS:-1}
if [[ -z $nodelist && -n ${SLURM_STEP_NODELIST:-} && ${#SLURM_STEP_ID} -lt 10 ]]; then # no shell that salloc left
  nodelist=$SLURM_STEP_NODELIST
fi
[[ -z $nodelist ]] || options+=(--nodelist "$nodelist")

# The others learn the end from a file on their node, which a step of ours writes: no shared file
# system is needed, and where the first task is killed that step's input ends, and it writes too.
# Its name can be foretold, and anybody may make it: so it is entered, and then judged, as into.sh does.
place=/tmp/mnrun.door.${SLURM_JOB_ID:-0}.${SLURM_STEP_ID:-0}
told() { # whether the step has said the code here, and sets `code` to it: enters its directory
  local there
  cd -- "$place" 2>/dev/null || return
  [[ -O . && .. -ef ${place%/*} && -O own ]] && read -r there code <own && [[ $there == "$place" ]] && return
  cd /
  [[ ! -e $place || -O $place ]] || leave 121 "$place is somebody else's on $(uname -n): the job's end cannot be told here"
  return 1 # not yet
}
leave() { # CODE WORDS…
  echo "$name: ${*:2}" >&2
  exit "$1"
}
stand_by() {
  local pause left=-1
  exec {pause}<> <(:) # never written: to wait without a process
  trap 'left=25' TERM INT HUP # the job's end is near, and the step that would tell us may end before
  until told; do
    ((left-- != 0)) || exit 143
    read -rt 0.2 -u "$pause" || true
  done
  : >"left.${SLURM_LOCALID:-0}"
  exit "$code"
}
first || stand_by

# What stands in each node's task of that step: PLACE TASKS FIRST, where TASKS is how many of ours are on
# each node (2(x3),1), and FIRST the node of the first.
# shellcheck disable=SC2016  # for another shell
herald='
  place=$1 node=0 here=0
  IFS=, read -ra groups <<<"$2"
  for group in "${groups[@]}"; do
    times=1
    [[ $group != *x* ]] || { times=${group#*x}; times=${times%)}; }
    ((SLURM_NODEID < node || SLURM_NODEID >= node + times)) || here=${group%%(*}
    node=$((node + times))
  done
  [[ ${SLURMD_NODENAME:-} != "$3" ]] || here=$((here - 1))
  trap "" TERM INT HUP
  read -r code || true
  umask 077
  mkdir "$place" && cd "$place" || exit # somebody else has it: nothing of ours belongs there
  echo "$place ${code:-137}" >new
  mv new own # from now on it counts
  shopt -s nullglob
  for round in {1..300}; do
    left=(left.*)
    ((${#left[@]} < here)) || break
    sleep 0.1
  done
  [[ ! -O . || ! . -ef $place ]] || rm -rf -- "$place"
'
lease=9 # none
clean=() # what the step that we are in says of steps is not for others
for variable in "${!SLURM_@}" "${!SRUN_@}"; do
  case $variable in
    SLURM_JOB_ID | SLURM_CONF | SLURM_CLUSTER*) ;;
    *) clean+=(-u "$variable") ;;
  esac
done
if ((tasks > 1)); then
  exec {lease}> >(
    env "${clean[@]}" srun --quiet --overlap --nodes="$SLURM_STEP_NUM_NODES" --ntasks="$SLURM_STEP_NUM_NODES" \
      --ntasks-per-node=1 --nodelist="$SLURM_STEP_NODELIST" --mem=0 --cpu-bind=none --mpi=none --input=all \
      --kill-on-bad-exit=0 --wait=0 --chdir=/tmp \
      bash -p -c "$herald" herald "$place" "${SLURM_STEP_TASKS_PER_NODE:-1}" "${SLURMD_NODENAME:-}"
  )
  herald_pid=$!
fi

trap : TERM INT HUP USR1 USR2 # mnrun has had it too, and says when it is over
tie=() # without us it would go on alone
if setpriv=$(command -v setpriv); then tie=("$setpriv" --pdeathsig TERM); fi
code=0
${tie[@]+"${tie[@]}"} env -u SLURM_NTASKS_PER_NODE -u SLURM_NTASKS "$mnrun" run "${options[@]}" --mode inside-out \
  --image "$image" --script "$script" -- ${words[@]+"${words[@]}"} ${help[@]+"${help[@]}"} {lease}>&- || code=$?
if ((tasks > 1)); then
  echo "$code" >&"$lease" || true
  exec {lease}>&-
  wait "$herald_pid" || {
    note "the other tasks could not be told that this is the end: the step is cancelled"
    scancel "$SLURM_JOB_ID.$SLURM_STEP_ID"
  }
fi
exit "$code"

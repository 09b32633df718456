#!/bin/bash -p
# People start this older script on the nodes, with one task per node and by one of four names. mnrun does the work:
#     salloc -N 2; srun srun_singularity.sh --container=app.sif --script=job.sh
#     pdsh -w $NODES NODES=$NODES pdsh_docker.sh --noderank=%n --container=IMAGE --script=job.sh --workingdir=$PWD
# The first task runs the job. The other tasks wait until it ends, and exit with its code.
set -euo pipefail
name=${0##*/}
[[ $name != *_docker.sh ]] || export MNRUN_RUNTIME=docker
noderank=${SLURM_PROCID:-0}
for word in "$@"; do [[ $word != --noderank=* ]] || noderank=${word#*=}; done

usage() {
  local start="srun $name" image='a SIF file or an unpacked directory'
  [[ $name != pdsh_* ]] || start="pdsh -w \$NODES NODES=\$NODES $name --noderank=%n"
  [[ $name != *_docker.sh ]] || image="an image's name"
  cat <<END
usage: $start --container=IMAGE --script=FILE [OPTIONS] [WORDS FOR THE SCRIPT]

Run FILE once, in a container on the first node of the step. In FILE, \`mpirun ./app\` and \`ssh NODE\` reach all
nodes, and \$hostlist, \$np and \$ENVLIST are set. Start this script with one task per node.

  --container=IMAGE      $image
  --script=FILE          an executable file. A relative name begins at the current directory
  --datamnts=DIR,…       directories to mount in the container at the same paths
  --envlist=NAME,…       variables to forward
  --slots_per_node=N     ranks on each node. Default: one per GPU, else one
  --nodelist=NODES       nodes of the step to use
  --singopts=WORDS       options for the container runtime
  --script_help          pass --help to the script
  -h, --help             this text
  --dockopts=WORDS       options for docker (docker scripts)
  --privileged           give the container all rights (docker scripts)
  --workingdir=DIR       directory to start in (pdsh scripts)
  --noderank=%n          number of this host (pdsh scripts)
  --sshconfigdir= --sshdport= --iname= --dockname= --ibdevices=   no effect now; a note says so

This script calls mnrun, which has more options: mnrun --help.
END
}

first() { [[ $noderank == 0 ]]; }
note() { ! first || echo "$name: $*" >&2; }
die() { # CODE WORDS…: Report WORDS once, by the first task, and exit with CODE
  local code=$1
  shift
  note "$@"
  exit "$code"
}

own() { # NAME [VALUE]: Translate one option of this script into options of mnrun
  local list item
  case $1 in
    --container) image=$2 ;;
    --script) script=$2 ;;
    --script_help) help=(--help) ;;
    --slots_per_node) options+=(--ntasks-per-node "$2" --force) ;; # the older script had no other limit
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
          die 2 "--envlist: '$item' is not a variable name"
        elif [[ ! -v $item ]]; then
          note "--envlist: $item is not set here, and is left out"
        else
          options+=(-x "$item")
        fi
      done ;;
    --ibdevices) note "$1 has no effect now: containers see all of /dev/infiniband" ;;
    --sshconfigdir | --iname | --dockname) note "$1 has no effect now: each job has its own keys, configuration and names" ;;
    --sshdport) note "$1 has no effect now: each job takes free ports, and MNRUN_PORTS=FROM-TO names the range" ;;
  esac
}

image='' script='' nodelist='' options=() words=() help=()
while (($#)); do
  case $1 in
    -h | --help) ! first || usage; exit 0 ;;
    --script_help | --privileged) own "$1" ;;
    --container=* | --script=* | --slots_per_node=* | --nodelist=* | --singopts=* | --datamnts=* | --envlist=* | \
      --dockopts=* | --workingdir=* | --noderank=* | --ibdevices=* | --dockname=* | \
      --sshconfigdir=* | --sshdport=* | --iname=*) own "${1%%=*}" "${1#*=}" ;;
    --container | --script | --slots_per_node | --nodelist | --singopts | --datamnts | --envlist | \
      --sshconfigdir | --sshdport | --iname) die 2 "$1 has no value: write $1=VALUE" ;;
    *) words+=("$1") ;; # other options are for the user's script
  esac
  shift
done
[[ -n $script ]] || die 2 "no script: name one with --script=FILE"
[[ -n $image ]] || die 2 "no image: name one with --container=FILE"

mnrun=$(dirname "$(readlink -f "$0")")/mnrun # the mnrun beside this script, whatever PATH says on a node
[[ -x $mnrun ]] || mnrun=${mnrun%/share/mnrun/scripts/mnrun}/bin/mnrun # that of the same installation
[[ -x $mnrun ]] || mnrun=$(command -v mnrun) || die 2 "mnrun is not installed beside $0 on $(uname -n), nor on PATH"

if [[ $name == pdsh_* ]]; then # without a scheduler, one task reaches the other hosts, and those have nothing to do
  first || exit 0
  [[ -n ${NODES-} ]] || die 2 "NODES is not set: pdsh -w \$NODES NODES=\$NODES $name --noderank=%n …"
  exec "$mnrun" run --hosts "$NODES" ${options[@]+"${options[@]}"} --mode inside-out --image "$image" \
    --script "$script" -- ${words[@]+"${words[@]}"} ${help[@]+"${help[@]}"}
fi

tasks=${SLURM_STEP_NUM_TASKS:-1}
if [[ -z $nodelist && -n ${SLURM_STEP_NODELIST:-} && ${#SLURM_STEP_ID} -lt 10 ]]; then
  # salloc's own shell has SLURM_STEP_* as well, with an id above 4294967000 (ten digits). There, all
  # nodes of the job count.
  nodelist=$SLURM_STEP_NODELIST
fi
[[ -z $nodelist ]] || options+=(--nodelist "$nodelist")

# The other tasks learn the end from a file on their node. A step of the first task writes it, so no shared file system
# is needed. If the first task is killed, the input of that step ends, and the step writes the file too.
# Any user can foretell the file's name and make it. So a task enters the directory first and judges it then, as into.sh
# does.
place=/tmp/mnrun.door.${SLURM_JOB_ID:-0}.${SLURM_STEP_ID:-0}
answered() { # Test whether the step has written the code here
  # This sets `code` to it, and enters its directory.
  local there
  cd -- "$place" 2>/dev/null || return 1
  [[ -O . && .. -ef ${place%/*} && -O own ]] && read -r there code <own && [[ $there == "$place" ]] && return 0
  cd /
  [[ ! -e $place || -O $place ]] || leave 121 "$place belongs to another user on $(uname -n): this task cannot learn of the job's end"
  return 1 # not yet
}
leave() { # CODE WORDS…: Report WORDS, and exit with CODE
  echo "$name: ${*:2}" >&2
  exit "$1"
}
stand_by() { # Wait for the end of the job, and exit with its code
  local pause left=-1
  exec {pause}<> <(:) # the pipe is never written, so the read waits without a process
  trap '' USR1 USR2 # for the program
  trap 'left=25' TERM INT HUP # the job is about to end, and the step that writes the code may end first
  until answered; do
    ((left-- != 0)) || exit 143
    read -rt 0.2 -u "$pause" || true
  done
  : >"left.${SLURM_LOCALID:-0}"
  exit "$code"
}
first || stand_by

# Each node's task of that step runs this text, with the words PLACE TASKS FIRST. TASKS is the number of tasks of this
# script on each node (2(x3),1). FIRST is the node of the first task.
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
  trap "" TERM INT HUP USR1 USR2
  unset TMOUT # bash would end each `read` after so many seconds
  read -r code || true
  umask 077
  mkdir "$place" && cd "$place" || exit # PLACE belongs to another process, so nothing is written there
  echo "$place ${code:-137}" >new
  mv new own # the code is valid from now on
  shopt -s nullglob
  for round in {1..100}; do # Slurm sends a KILL 30 s after its TERM (slurm.conf(5), KillWait)
    left=(left.*)
    ((${#left[@]} < here)) || break
    sleep 0.1
  done
  [[ ! -O . || ! . -ef $place ]] || rm -rf -- "$place"
'
lease=9 # no open file has this number
# The variables of this step are not for other steps.
clean=()
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
      --kill-on-bad-exit=0 --wait=0 --chdir=/ \
      bash --norc -p -c "$herald" herald "$place" "${SLURM_STEP_TASKS_PER_NODE:-1}" "${SLURMD_NODENAME:-}"
  )
  herald_pid=$!
fi

trap : TERM INT HUP USR1 USR2 # mnrun has received the signal too, and says when it is over
tie=() # mnrun would go on alone where this script is killed
if setpriv=$(command -v setpriv) && "$setpriv" --pdeathsig keep true 2>/dev/null; then tie=("$setpriv" --pdeathsig TERM); fi
code=0
${tie[@]+"${tie[@]}"} env -u SLURM_NTASKS_PER_NODE -u SLURM_NTASKS -u SLURM_STEP_NUM_TASKS "$mnrun" run \
  "${options[@]}" --mode inside-out --image "$image" --script "$script" -- ${words[@]+"${words[@]}"} ${help[@]+"${help[@]}"} {lease}>&- || code=$?
if ((tasks > 1)); then
  trap '' TERM INT HUP USR1 USR2 PIPE # the step may have ended, and a signal would end `wait`
  { echo "$code" >&"$lease"; } 2>/dev/null || true
  exec {lease}>&-
  wait "$herald_pid" || {
    note "the other tasks did not learn of the end: mnrun cancels the step"
    scancel "$SLURM_JOB_ID.$SLURM_STEP_ID"
  }
fi
exit "$code"

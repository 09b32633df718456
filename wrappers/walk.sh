#!/bin/bash
# shellcheck disable=SC2154  # what is given
# The batch script's side of a launch, as launcher/execute.py is a live one's. The generated script
# sources it, and says in its own lines what runs:
#     begin; serve WORDS; run WORDS; await SECONDS; go; finish SWEEPING WORDS
# Given: stage, jobs, ranks (how many on each node), variables (NAME=VALUE of every rank, NAME where it is taken away),
# inherited (names whose values are the job's own), inside (1 for inside-out), connect, split (where ranks' outputs go, if apart).
#
# The lease is a pipe that this shell alone writes: it ends with it, whatever happens.

# shellcheck disable=SC1091
source "$stage/words.sh" # shapes_a_step, from mnrun's table of rules; $boot and $until_go
GRACE=3 ANSWER=1 FAREWELL=10 # seconds, as in execute.py
RESTARTS=5                   # how often Slurm may requeue a job before it is given up

say() { printf 'mnrun: %s\n' "$*" >&2; }

die() { # CODE WORDS: a failure of ours
  ours=$1 why=${*:2}
  say "$why"
  exit "$1"
}

quoted() { # for any shell
  local value=${1//\'/\'\\\'\'}
  printf "'%s'" "$value"
}

begin() { # the job's nodes, its records, its keys, and what its nodes are sent
  local name i
  declare -gA here_is=() ready=() nossh=() failed=() gone=() logs=() count=() seen=() bye=() address=() host=() port=()
  step='' code='' ours='' why='' served='' went='' runner='' server='' lease='' record='' mine=''
  first_bad='' alone=0 sizes=' ' warned='' buffer='' sweeping=()
  nodes=$SLURM_JOB_NODELIST
  mapfile -t names < <(scontrol show hostnames "$nodes")
  head=${names[0]} job=$SLURM_JOB_ID
  ((${#names[@]} == ${#ranks[@]})) ||
    die 122 "the job has ${#names[@]} nodes, and this script was written for ${#ranks[@]}: write it anew with mnrun submit"
  each='' total=0 list='' hostlist=''
  for i in "${!names[@]}"; do
    for ((total += ranks[i], name = ranks[i]; name > 0; name--)); do each+=${each:+,}${names[i]}; done
    list+=${list:+,}${names[i]} hostlist+=${hostlist:+,}${names[i]}:${ranks[i]}
  done
  id=$job-$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
  here=/tmp/mnrun.$id # on every node
  mine=$(mktemp -d "/tmp/mnrun.$id.script.XXXXXX")
  trap ending EXIT
  restart=${SLURM_RESTART_COUNT:-0}
  ((restart <= RESTARTS)) || die 121 "this is start number $((restart + 1)): something ends this job again and again"
  label=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
  record=$jobs/${label:-$job}/$restart
  (umask 077 && mkdir -p "$record") || die 121 "cannot write to the job directory $record"
  printf '{"time": %s, "nodes": "%s", "head": "%s", "output": "%s", "error": "%s", "split_output": "%s", "ranks": [%s]}\n' \
    "$(date +%s)" "$nodes" "$head" "$(readlink -f /proc/$$/fd/1)" "$(readlink -f /proc/$$/fd/2)" "$split" \
    "$(IFS=, && echo "${ranks[*]}")" >"$record/begun"
  : >"$record/log"
  write_kit
  clean_environment
  mkfifo "$mine/up" "$mine/lease"
  exec {up}<>"$mine/up" {lease}<>"$mine/lease"
  trap 'pass TERM' TERM
  trap 'pass USR1' USR1
  trap 'pass USR2' USR2
  trap 'pass INT' INT
}

write_kit() { # the same files as a live launch sends, with this job's names and values
  local kit=$mine/kit name i
  mkdir -m 700 "$kit"
  cp -r "$stage/kit/." "$kit"
  for name in job.sh user.env launch.env; do
    sed -i -e "s|MNRUN_HOSTS:[0-9]*|$hostlist|g; s|MNRUN_JOB|$id|g; s|MNRUN_SLURM|$job|g; s|MNRUN_NODES|$nodes|g" "$kit/$name"
  done
  for i in "${!names[@]}"; do echo "${names[i]} ${ranks[i]}"; done >"$kit/layout"
  echo "job_nodes=$list" >>"$kit/job.sh"
  rank_variables >>"$kit/user.env"
  if [[ -n $inside ]]; then
    given_back | cat - "$kit/launch.env" >"$mine/launch.env"
    mv "$mine/launch.env" "$kit/launch.env"
  fi
  if [[ $connect == auto ]] && ! command -v ssh-keygen >/dev/null; then connect=pipe; fi
  echo "job_connect=$connect" >>"$kit/job.sh"
  if [[ $connect == ssh || $connect == auto ]]; then
    command -v ssh-keygen >/dev/null || die 121 "ssh-keygen is not installed on $head; --connect pipe does without"
    for name in key hostkey; do ssh-keygen -q -t ed25519 -N '' -C mnrun -f "$kit/$name"; done
    mv "$kit/key.pub" "$kit/authorized_keys"
    (echo -n 'mnrun ' && cat "$kit/hostkey.pub") >"$kit/known_hosts" && rm "$kit/hostkey.pub"
  fi
  tar -czf "$mine/kit.tar.gz" -C "$kit" .
  rm -rf "$kit"
}

facts() { # what a rank gets back of its job: names
  local name
  for name in SLURM_JOB_ID SLURM_JOB_NAME SLURM_RESTART_COUNT SLURM_JOB_END_TIME SLURM_SUBMIT_DIR "${!SLURM_ARRAY_@}"; do
    [[ -z ${!name-} ]] || echo "$name"
  done
}

rank_variables() { # `export` lines: the job's facts, the values that were asked for, and those passed on
  local name value
  for name in $(facts); do printf 'export %s=%s\n' "$name" "$(quoted "${!name}")"; done
  for value in "${variables[@]}"; do
    name=${value%%=*}
    if [[ $value != *=* ]]; then
      echo "unset $name"
      continue
    fi
    value=${value#*=}
    [[ $name != PATH || -z $inside ]] || value=$here/bin:$value
    printf 'export %s=%s\n' "$name" "$(quoted "$value")"
  done
  for name in "${inherited[@]}"; do
    [[ -n ${!name+set} ]] || die 2 "there is no variable $name in this job, which was to be passed on"
    printf 'export %s=%s\n' "$name" "$(quoted "${!name}")"
  done
}

given_back() { # the facts again, for Open MPI, which hands them to every rank though its mpirun must not see them
  local name back=''
  for name in $(facts); do [[ ${!name} == *';'* ]] || back+=${back:+;}$name=${!name}; done
  printf 'export OMPI_MCA_mca_base_env_list=%s\n' "$(quoted "$back")"
}

clean_environment() { # what would shape our steps, or have a rank take itself for another's
  local name
  while read -r name; do
    if shapes_a_step "$name"; then unset "$name"; fi
  done < <(compgen -e)
}

deaf() { trap '' HUP INT TERM USR1 USR2; } # a signal to the batch step reaches every process of it

relay() { # whole lines, each at once
  local line
  deaf
  while IFS= read -r line; do printf '%s\n' "${line:0:4000}" >&"$up"; done
}

serve() { # WORDS: the serving step, with a guard on every node; its input is the lease
  {
    deaf
    exec {lease}>&-
    "$@" <"$mine/lease" 2>"$mine/noise" && echo serve-ended 0 || echo "serve-ended $?"
  } | relay {lease}>&- &
  server=$!
  {
    stat -c %s "$mine/kit.tar.gz"
    cat "$mine/kit.tar.gz"
  } >&"$lease"
  rm "$mine/kit.tar.gz"
}

run() { # WORDS: the program's step
  {
    deaf # signals go by the lease
    exec {lease}>&-
    "$@" && echo run-ended 0 >&"$up" || echo "run-ended $?" >&"$up"
  } &
  runner=$!
}

pass() { # SIGNAL: to the program, on one way only
  if [[ -n $went ]]; then echo "signal $1" >&"$lease"; else exit $((128 + $(kill -l "$1"))); fi
}

hear() { # SECONDS: take in one line; false where none came in time
  local line deadline=$((SECONDS + $1))
  while ((SECONDS <= deadline)); do
    if IFS= read -r -t 1 -u "$up" line; then
      line=$buffer$line buffer=''
      take "$line"
      return 0
    fi
    buffer+=$line
  done
  return 1
}

carry() { # `ask|answer FROM TO ID KIND DATA`: from one node to another, as launcher/relay.py
  local word from to what rest
  read -r word from to what rest <<<"$1"
  if [[ -n ${ready[$to]-} && -z ${failed[$to]-}${gone[$to]-} ]]; then
    echo "$word $to $from $what $rest" >&"$lease"
  elif [[ "$word $rest" == "ask run "* ]]; then
    echo "answer $from $to $what no $(reason "$to")" >&"$lease"
  fi
}

take() { # LINE
  local word node rest fact
  if [[ $1 == "ask "* || $1 == "answer "* ]]; then
    [[ -z $lease ]] || carry "$1"
    return 0
  fi
  read -r word node rest <<<"$1"
  echo "$1" >>"$record/log"
  [[ $word == *-ended || " ${names[*]} " == *" $node "* ]] || return 0 # none of ours: srun speaks here too
  case $word in
    run-ended) code=$node ;;
    serve-ended) served=$node ;;
    here) here_is[$node]=1 ;;
    ready)
      ready[$node]=1
      for fact in $rest; do
        case $fact in
          host=*) host[$node]=${fact#*=} ;;
          address=*) address[$node]=${fact#*=} ;;
          port=*) port[$node]=${fact#*=} ;;
          step=*) step=${fact#*=} ;;
        esac
      done
      ;;
    nossh) nossh[$node]=$rest ;;
    fail) failed[$node]=${failed[$node]:-$rest} ;;
    gone) gone[$node]=$rest ;;
    log) logs[$node]+="${logs[$node]:+; }$rest" ;;
    rank)
      [[ -n ${seen[$node:${rest%% *}]-} ]] || count[$node]=$((${count[$node]:-0} + 1))
      seen[$node:${rest%% *}]=1
      [[ $sizes == *" ${rest#* } "* ]] || sizes+="${rest#* } "
      ;;
    ended) [[ -n $first_bad || ${rest#* } == 0 ]] || first_bad=${rest#* } ;;
    warned) warned=1 ;;
    alone) alone=$((alone + 1)) ;;
    bye)
      bye[$node]=1
      [[ -z ${rest// /} ]] || say "warning: on $node these processes could not be ended: $rest"
      ;;
  esac
}

reason() { # NODE: why it is not ready
  if [[ -n ${failed[$1]-} ]]; then
    echo "${failed[$1]}"
  elif [[ -n ${gone[$1]-} ]]; then
    echo "its container ended with ${gone[$1]}${logs[$1]:+ (${logs[$1]})}"
  elif [[ -n ${here_is[$1]-} ]]; then
    echo "not ready yet${logs[$1]:+ (${logs[$1]})}"
  else
    echo "no word from it"
  fi
}

blame() { # the nodes that keep the job from starting, each with its reason
  local name text='' refusing=0 number=0
  for name in "${names[@]}"; do
    [[ -n ${ready[$name]-} || (-z ${failed[$name]-}${gone[$name]-} && -n ${here_is[$name]-}) ]] || refusing=1
  done
  for name in "${names[@]}"; do
    [[ -z ${ready[$name]-} ]] || continue
    ((refusing == 0)) || [[ -n ${failed[$name]-}${gone[$name]-} || -z ${here_is[$name]-} ]] || continue
    number=$((number + 1)) text+="${text:+; }$name: $(reason "$name")"
  done
  echo "$number of ${#names[@]} nodes not ready$1: $text$(noise)"
}

noise() { # what srun itself has said
  local said
  said=$(tail -n 3 "$mine/noise" 2>/dev/null | tr '\n' '|')
  [[ -z $said ]] || echo " (${said%|})"
}

await() { # SECONDS: until every node is ready
  local deadline=$((SECONDS + $1)) spoke
  while ((${#ready[@]} < ${#names[@]})); do
    spoke=$((${#failed[@]} + ${#gone[@]}))
    if [[ -n $served || -n $code ]] || ((spoke > 0 && spoke + ${#ready[@]} >= ${#names[@]})); then
      die 121 "$(blame '')"
    fi
    if ((spoke > 0 && deadline > SECONDS + GRACE)); then deadline=$((SECONDS + GRACE)); fi # the rest may speak too
    if ! hear $((deadline - SECONDS)); then
      echo log >&"$lease"
      while hear "$ANSWER"; do :; done
      ((spoke == 0)) || die 121 "$(blame '')"
      die 124 "$(blame " after $1 s"); --start-timeout gives them longer"
    fi
  done
}

send() { # NAME: standard input, as a file of the job on every node
  echo "file $1 $(base64 -w0)" >&"$lease"
}

choose() { # how the containers reach each other, where that was left to the nodes
  local name
  [[ $connect != auto ]] || connect=ssh
  for name in "${!nossh[@]}"; do
    connect=pipe
    [[ ${nossh[$name]} == "the image has no ssh"* ]] || say "connected by pipe: $name: ${nossh[$name]}"
  done
}

go() {
  local name i
  choose
  if [[ $connect == pipe ]]; then
    for name in "${names[@]}"; do echo "$name ${host[$name]} ${address[$name]}"; done | send nodes
  elif [[ $connect == ssh ]]; then
    {
      for name in "${names[@]}"; do
        printf 'Host %s\n    HostName %s\n    Port %s\n' "$name${host[$name]:+ ${host[$name]}}" \
          "${address[$name]:-${host[$name]:-$name}}" "${port[$name]}"
      done
      sed "s|MNRUN_JOB|$id|g; s|MNRUN_USER|$(id -un)|" "$stage/ssh_config"
    } | send ssh_config
  fi
  if [[ -n $inside ]]; then
    for i in "${!names[@]}"; do echo "${names[i]} slots=${ranks[i]}"; done | send hostfile
    for i in "${!names[@]}"; do echo "${names[i]}:${ranks[i]}"; done | send hostfile.hydra
  fi
  echo go >&"$lease"
  went=1
}

finish() { # SWEEPING WORDS: wait for the program, end everything, and leave with its code
  sweeping=("$@")
  while [[ -z $code ]]; do
    hear 60 || continue
    if [[ -n $warned ]]; then
      runs || break
      warned=''
    fi
    ((${#failed[@]} + ${#gone[@]} == 0)) || break
    [[ -z $served ]] || break
  done
  exit "${code:-0}"
}

runs() { # whether the job goes on, or nobody knows better
  said=$(scontrol -o show job "$job" 2>/dev/null) || return 0
  [[ $said == *JobState=RUNNING* || $said == *JobState=SUSPENDED* ]]
}

ending() { # whatever happened: the program, the lease, every guard's farewell, the records
  local status=$? name deadline silent=''
  trap '' EXIT TERM INT USR1 USR2
  set +eu
  if [[ -n $runner && -z $code && -n $went ]]; then
    echo "signal TERM" >&"$lease"
    deadline=$((SECONDS + GRACE))
    while [[ -z $code ]] && ((SECONDS < deadline)); do hear 1; done
  fi
  [[ -z $lease ]] || exec {lease}>&-
  lease=''
  deadline=$((SECONDS + FAREWELL))
  while [[ -n $server && (-z $served || (-n $runner && -z $code)) ]] && ((SECONDS < deadline)); do hear 1; done
  for name in "${!ready[@]}"; do [[ -n ${bye[$name]} ]] || silent+=" $name"; done
  if [[ -n $silent ]]; then
    say "warning: no farewell from$silent"
    [[ -z $served ]] || timeout "$FAREWELL" "${sweeping[@]}" </dev/null >/dev/null 2>&1
    [[ -n $served ]] || scancel "$job.$step"
  fi
  [[ -n $ours ]] || judge "$status" "$silent"
  if [[ -n $record ]]; then
    printf '{"time": %s, "code": %s, "why": "%s"}\n' "$(date +%s)" "$status" "${why//[\"\\]/}" >"$record/outcome.new"
    mv "$record/outcome.new" "$record/outcome"
  fi
  [[ -z $mine ]] || rm -rf "$mine"
  exit "$status"
}

judge() { # STATUS SILENT: the program's own code, unless ranks are missing or nodes were lost
  local name i
  blamed() { why=${*:2} status=$1; say "$why"; }
  status=${code:-$1}
  if [[ $code != 0 && -n $warned ]] && ! runs; then # scancel tells every process: the rest is its consequence
    case $said in
      *Restarts=$((restart + 1))*) blamed 143 requeued ;; # the word that its followers know
      *JobState=TIMEOUT*) blamed 124 "job $job reached its time limit" ;;
      *) blamed 143 "job $job was cancelled" ;;
    esac
    return
  fi
  if ((status != 0)) && [[ -n $first_bad ]]; then status=$first_bad; fi # srun's is that of those it ended
  for name in "${!failed[@]}"; do
    [[ $code == 0 ]] || { blamed 125 "$name: ${failed[$name]}"; return; }
  done
  for name in "${!gone[@]}"; do
    [[ -n $code ]] || { blamed 121 "$name: $(reason "$name")"; return; }
  done
  if [[ -z $code && -n $went ]]; then
    blamed 121 "the serving step ended while the program ran$(noise)"
  elif ((status != 0)) && [[ -n $2 ]]; then
    blamed 121 "lost while the program ran:$2"
  elif [[ $code == 0 && -n $counted ]]; then
    for i in "${!names[@]}"; do
      ((${count[${names[i]}]:-0} == ranks[i])) || {
        blamed 121 "${count[${names[i]}]:-0} ranks started on ${names[i]}, but ${ranks[i]} were asked for"
        return
      }
    done
    if ((alone > 0)); then
      blamed 125 "$alone of $total ranks took themselves for rank 0 of 1; try --mode inside-out, or another --mpi"
    elif [[ $sizes != " $total " ]]; then
      blamed 125 "ranks thought that there are$sizes of them, not $total"
    fi
  fi
}

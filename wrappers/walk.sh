#!/bin/bash
# shellcheck disable=SC2034,SC2154  # what is given, and what pack.sh and image.sh read
# The batch script's side of a launch, as launcher/execute.py is a live one's. The generated script
# sources it, and says in its own lines what runs:
#     begin; prepare SECONDS REFERENCE WORDS; serve WORDS; run WORDS; await SECONDS; go; finish SWEEPING WORDS
# Given: stage, ranks (how many on each node), variables (NAME=VALUE of every rank, NAME where it is taken away),
# inherited (NAME=VALUE with the job's own values, NAME where it has none), inside (1 for inside-out), connect,
# split (where ranks' outputs go, if apart); and what enter.sh leaves.
#
# The lease is a pipe that this shell alone writes: it ends with it, whatever happens.

# shellcheck disable=SC1091
source "$stage/words.sh" # shapes_a_step, from mnrun's table of rules; $boot and $until_go
source "$stage/pack.sh"  # write_kit
GRACE=3 ANSWER=1 FAREWELL=10 # seconds, as in execute.py
RESTARTS=5                   # how many starts may end without a word of a requeue before a job is given up

say() { printf 'mnrun: %s\n' "$*" >&2; }

die() { # CODE WORDS: a failure of ours
  ours=$1 why=${*:2}
  say "$why"
  exit "$1"
}

begin() { # the job's nodes, its records, its keys, and what its nodes are sent
  local name i lost=0
  declare -gA here_is=() ready=() nossh=() failed=() gone=() logs=() count=() seen=() bye=() address=() host=() port=() image_is=()
  step='' code='' ours='' why='' served='' went='' runner='' server='' lease='' mine='' told=''
  first_bad='' alone=0 sizes=' ' warned='' preempted='' buffer='' sweeping=()
  trap ending EXIT
  # shellcheck disable=SC2064  # its name, now
  for name in TERM INT USR1 USR2; do trap "pass $name" "$name"; done
  record=$mnrun_record restart=$mnrun_restart
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
  # each task of an array, and each start, has files of its own
  [[ -z $split ]] || split+=${SLURM_ARRAY_TASK_ID:+/$SLURM_ARRAY_TASK_ID}
  [[ -z $split || $restart == 0 ]] || split+=/start.$restart
  mnrun_began "$split" "${ranks[@]}" || die 121 "cannot write to the job directory $record"
  for ((i = 0; i < restart; i++)); do # a start that was requeued or preempted is none that failed
    [[ ! -d $mnrun_starts/$i ]] || grep -qs '"why": "requeued"' "$mnrun_starts/$i/outcome" || lost=$((lost + 1))
  done
  ((lost <= RESTARTS)) || die 121 "this is start number $((restart + 1)): something ends this job again and again"
  : >"$record/log"
  write_kit
  clean_environment
  mkfifo "$mine/up" "$mine/lease"
  exec {up}<>"$mine/up" {lease}<>"$mine/lease"
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
  tar -czf "$mine/kit.tar.gz" -C "$mine/kit" . && rm -rf "$mine/kit"
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
  if [[ -n $went ]]; then
    echo "signal $1" >&"$lease"
  else
    told=$1
    exit $((128 + $(kill -l "$1")))
  fi
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
    pull-ended) pulled=$node ;;
    pulling | image | unpulled) hear_of_image "$word" "$node" "$rest" ;;
    here) here_is[$node]=1 ;;
    ready)
      ready[$node]=1
      for fact in $rest; do
        case $fact in
          host=*) host[$node]=${fact#*=} ;;
          address=*) address[$node]=${fact#*=} ;;
          port=*) port[$node]=${fact#*=} ;;
          step=*) step=${fact#*=} ;;
          image=*) image_is[$node]="${fact#*=}" ;;
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

reasons() { # NAME: what that table says of each node
  local -n of=$1
  local name text=''
  for name in "${names[@]}"; do [[ -z ${of[$name]-} ]] || text+="${text:+; }$name: ${of[$name]}"; done
  echo "$text"
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
  local deadline=$((SECONDS + $1)) spoke name
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
  for name in "${!image_is[@]}"; do
    [[ ${image_is[$name]} == "${image_is[$head]-}" ]] ||
      die 121 "the image is not the same on all nodes: $(reasons image_is); copy one of them to all, or name one that all nodes see"
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
      sed "s|"$'\x1a'"MNRUN_JOB|$id|g" "$stage/ssh_config"
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
  [[ $said != *PreemptTime=[0-9]* ]] || preempted=1 # in its grace time, after which Slurm ends it
  [[ $said == *JobState=RUNNING* || $said == *JobState=SUSPENDED* ]]
}

ending() { # whatever happened: the program, the lease, every guard's farewell, the records
  local status=$? failing=$BASH_COMMAND name deadline silent=''
  trap '' EXIT TERM INT USR1 USR2
  set +eu
  [[ -z ${pull-} ]] || end_pull
  if [[ -n $runner && -z $code && -n $went ]]; then
    echo end >&"$lease"
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
  mnrun_ended "$status" "$why"
  [[ -z $mine ]] || rm -rf "$mine"
  exit "$status"
}

judge() { # STATUS SILENT: the program's own code, unless ranks are missing or nodes were lost
  local name i
  blamed() { why=${*:2} status=$1; say "$why"; }
  status=${code:-$1}
  [[ $told != TERM ]] || warned=1
  # scancel tells every process: the rest is its consequence, and so is the 0 of an mpirun that it ended
  if [[ -n $warned ]] && ! runs && [[ $code != 0 || -z $preempted ]]; then
    case $said in
      *Restarts=$((restart + 1))*) blamed 143 requeued ;; # the word that its followers know
      *JobState=TIMEOUT* | *Reason=TimeLimit*) blamed 124 "job $job reached its time limit" ;;
      *) blamed 143 "job $job was cancelled" ;;
    esac
    return
  fi
  if [[ -z $code && -z $went ]]; then
    if ((status == 0)); then status=143; fi # a signal that nobody heeds: it shows as no code
    if ((status > 128)); then
      blamed "$status" "ended by ${told:+SIG}${told:-a signal} before the program began"
    else
      blamed 121 "on $head this failed before the program began: $failing"
    fi
    return
  fi
  [[ -z $preempted || -z $code ]] || { why=requeued && say "job $job was preempted; its program ended with $code" && return; }
  if ((status != 0)) && [[ -n $first_bad ]]; then status=$first_bad; fi # srun's is that of those it ended
  for name in "${!failed[@]}"; do
    [[ $code == 0 ]] || { blamed 125 "$name: ${failed[$name]}"; return; }
  done
  for name in "${!gone[@]}"; do
    blamed 121 "$name: $(reason "$name")" # whatever mpirun made of it
    return
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

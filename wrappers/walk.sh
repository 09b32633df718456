#!/bin/bash
# shellcheck disable=SC2034,SC2154  # what is given, and what pack.sh, prove.sh and image.sh read
# The batch script's side of a launch, as launcher/mnrun/running/execute.py is a live one's. The generated script
# sources it, and says in its own lines what runs:
#     begin; prepare SECONDS REFERENCE WORDS; serve WORDS; run WORDS; await SECONDS; speak WORDS; go; finish SWEEPING WORDS
# Given, each with mnrun_ in front: stage, ranks (how many on each node), variables (NAME=VALUE of every rank, NAME
# where it is taken away), inherited (NAME=VALUE with the job's own values, NAME where it has none), inside (1 for
# inside-out), connect, split (where ranks' outputs go, if apart), counted; and what enter.sh leaves. All names that
# live longer than a function begin so: what the user exports under another name reaches the ranks as it is.
#
# The lease is a pipe that this shell alone writes: it ends with it, whatever happens.

# shellcheck disable=SC1091
source "$mnrun_stage/words.sh" # shapes_a_step, from mnrun's table of rules; $mnrun_boot and $mnrun_until_go
source "$mnrun_stage/pack.sh"  # write_kit
source "$mnrun_stage/prove.sh"
source "$mnrun_stage/limits.sh"
mnrun_grace=3 mnrun_answer=1 mnrun_farewell=10 # seconds, as in execute.py
mnrun_tries=5 # how many starts may end without a word of a requeue before a job is given up

say() { printf 'mnrun: %s\n' "$*" >&2; }

die() { # CODE WORDS: a failure of ours
  mnrun_ours=$1 mnrun_why=${*:2}
  say "$mnrun_why"
  exit "$1"
}

begin() { # the job's nodes, its records, its keys, and what its nodes are sent
  local name i lost=0
  declare -gA mnrun_known=() mnrun_here_is=() mnrun_ready=() mnrun_nossh=() mnrun_failed=() mnrun_gone=() mnrun_logs=() mnrun_count=() mnrun_seen=() mnrun_bye=() mnrun_address=() mnrun_host=() mnrun_port=() mnrun_image_is=()
  mnrun_step='' mnrun_code='' mnrun_ours='' mnrun_why='' mnrun_served='' mnrun_went='' mnrun_runner='' mnrun_server='' mnrun_lease='' mnrun_mine='' mnrun_told=''
  mnrun_first_bad='' mnrun_first_told='' mnrun_late='' mnrun_alone=0 mnrun_sizes=' ' mnrun_warned='' mnrun_since='' mnrun_buffer='' mnrun_memory='' mnrun_starved='' mnrun_sweeping=()
  trap ending EXIT
  # shellcheck disable=SC2064  # its name, now
  for name in TERM INT HUP QUIT USR1 USR2 ALRM CONT; do trap "pass $name" "$name"; done
  mnrun_nodes=$SLURM_JOB_NODELIST
  mapfile -t mnrun_names < <(scontrol show hostnames "$mnrun_nodes")
  mnrun_head=${mnrun_names[0]} mnrun_job=$SLURM_JOB_ID
  ((${#mnrun_names[@]} == ${#mnrun_ranks[@]})) ||
    die 122 "the job has ${#mnrun_names[@]} nodes, and this script was written for ${#mnrun_ranks[@]}: write it anew with mnrun submit"
  mnrun_total=0 mnrun_list='' mnrun_hostlist=''
  for i in "${!mnrun_names[@]}"; do
    mnrun_total=$((mnrun_total + mnrun_ranks[i])) mnrun_known[.${mnrun_names[i]}]=1
    mnrun_list+=${mnrun_list:+,}${mnrun_names[i]} mnrun_hostlist+=${mnrun_hostlist:+,}${mnrun_names[i]}:${mnrun_ranks[i]}
  done
  mnrun_id=$mnrun_job-$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
  mnrun_here=/tmp/mnrun.$mnrun_id # on every node
  mnrun_mine=$(mktemp -d "/tmp/mnrun.$mnrun_id.script.XXXXXX")
  mnrun_each=$mnrun_mine/each
  list_each >"$mnrun_each"
  # each task of an array, and each start, has files of its own
  [[ -z $mnrun_split ]] || mnrun_split+=${SLURM_ARRAY_TASK_ID:+/$SLURM_ARRAY_TASK_ID}
  [[ -z $mnrun_split || $mnrun_restart == 0 ]] || mnrun_split+=/start.$mnrun_restart
  mnrun_began "$mnrun_split" || die 121 "cannot write to the job directory $mnrun_record"
  for ((i = 0; i < mnrun_restart; i++)); do # a start that was requeued or preempted is none that failed
    [[ ! -d $mnrun_starts/$i ]] || grep -qs '"why": "requeued"' "$mnrun_starts/$i/outcome" || lost=$((lost + 1))
  done
  ((lost <= mnrun_tries)) || die 121 "this is start number $((mnrun_restart + 1)): something ends this job again and again"
  : >"$mnrun_record/log"
  exec {mnrun_log}>>"$mnrun_record/log" # which takes a while on a shared filesystem, and there are many lines
  write_kit
  . "$mnrun_mine/kit/pid.sh"
  mnrun_noted "$mnrun_mine/pid"
  clean_environment
  mkfifo "$mnrun_mine/up" "$mnrun_mine/lease"
  exec {mnrun_up}<>"$mnrun_mine/up" {mnrun_lease}<>"$mnrun_mine/lease"
}

list_each() { # every node once for each of its ranks, as schedulers/slurm/steps.py has it; nobody asks where all have as many
  local i even=1
  for i in "${!mnrun_ranks[@]}"; do ((mnrun_ranks[i] == mnrun_ranks[0])) || even=''; done
  [[ -z $even ]] || return 0
  for i in "${!mnrun_names[@]}"; do echo "${mnrun_names[i]} ${mnrun_ranks[i]}"; done |
    awk '{ for (; $2 > 0; $2--) print $1 "," }'
}

clean_environment() { # what would shape our steps, or have a rank take itself for another's
  local name
  while read -r name; do
    if shapes_a_step "$name"; then unset "$name"; fi
  done < <(compgen -e)
}

deaf() { trap '' HUP INT QUIT TERM USR1 USR2 ALRM; } # a signal to the batch step reaches every process of it

relay() { # whole lines, each at once
  local line
  deaf
  while IFS= read -r line; do printf '%s\n' "${line:0:4000}" >&"$mnrun_up"; done
}

serve() { # WORDS: the serving step, with a guard on every node; its input is the lease
  {
    deaf
    exec {mnrun_lease}>&-
    "$@" <"$mnrun_mine/lease" 2>"$mnrun_mine/noise" && echo serve-ended 0 || echo "serve-ended $?"
  } | relay {mnrun_lease}>&- &
  mnrun_server=$!
  tar -czf "$mnrun_mine/kit.tar.gz" -C "$mnrun_mine/kit" . && rm -rf "$mnrun_mine/kit"
  {
    stat -c %s "$mnrun_mine/kit.tar.gz"
    cat "$mnrun_mine/kit.tar.gz"
  } >&"$mnrun_lease"
  rm "$mnrun_mine/kit.tar.gz"
}

speak() { # WORDS: which --mpi the ranks' srun has
  mnrun_pmi=$(deaf && exec {mnrun_lease}>&- && timeout "$mnrun_patience" "$@" </dev/null 2>/dev/null) || :
  [[ $mnrun_pmi == pmi2 ]] || mnrun_pmi=pmix # where there is no answer, too: each rank looks whether that suits
}

run() { # WORDS: the program's step
  {
    deaf # signals go by the lease
    exec {mnrun_lease}>&-
    "$@" && echo run-ended 0 >&"$mnrun_up" || echo "run-ended $?" >&"$mnrun_up"
  } &
  mnrun_runner=$!
}

pass() { # SIGNAL: to the program, on one way only
  if begun; then
    echo "signal $1" >&"$mnrun_lease"
  else
    mnrun_told=$1
    mnrun_hold "$1" # or leave
    mnrun_told=''
  fi
}

begun() { # whether the program is there: of ranks all of them, since their mpirun would end by a signal before
  [[ -n $mnrun_went && (-z $mnrun_counted || ${#mnrun_seen[@]} -ge $mnrun_total) ]]
}

hand_on() { # what has come before, once the program has had a moment to be ready for it
  local name
  begun || return 0
  mnrun_since=${mnrun_since:-$SECONDS}
  ((SECONDS >= mnrun_since + mnrun_grace)) || return 0
  for name in $mnrun_early; do echo "signal $name" >&"$mnrun_lease"; done
  mnrun_early=''
}

hear() { # SECONDS: take in one line; false where none came in time
  local line deadline=$((SECONDS + $1))
  while ((SECONDS <= deadline)); do
    if IFS= read -r -t 1 -u "$mnrun_up" line; then
      line=$mnrun_buffer$line mnrun_buffer=''
      take "$line"
      return 0
    fi
    mnrun_buffer+=$line
  done
  return 1
}

carry() { # `ask|answer FROM TO ID KIND DATA`: from one node to another, as nodes/relay.py
  local word from to what rest
  read -r word from to what rest <<<"$1"
  if [[ -n ${mnrun_ready[$to]-} && -z ${mnrun_failed[$to]-}${mnrun_gone[$to]-} ]]; then
    echo "$word $to $from $what $rest" >&"$mnrun_lease"
  elif [[ "$word $rest" == "ask run "* ]]; then
    echo "answer $from $to $what no $(reason "$to")" >&"$mnrun_lease"
  fi
}

take() { # LINE
  local word node rest fact name
  if [[ $1 == "ask "* || $1 == "answer "* ]]; then
    [[ -z $mnrun_lease ]] || carry "$1"
    return 0
  fi
  word=${1%% *} rest=${1#"${1%% *}"} rest=${rest# } # no more work than that for a line: of a large job there are very many
  node=${rest%% *} rest=${rest#"${rest%% *}"} rest=${rest# }
  echo "$1" >&"$mnrun_log"
  [[ $word == *-ended || -n ${mnrun_known[.$node]-} ]] || return 0 # none of ours: srun speaks here too
  case $word in
    run-ended) mnrun_code=$node ;;
    serve-ended) mnrun_served=$node ;;
    pull-ended) mnrun_pulled=$node ;;
    fact) hear_of_limits "$node" "$rest" ;;
    used | topology) hear_of_proof "$word" "$node" "$1" ;;
    pulling | image | unpulled) hear_of_image "$word" "$node" "$rest" ;;
    here) mnrun_here_is[$node]=1 ;;
    ready)
      mnrun_ready[$node]=1
      for fact in $rest; do
        case $fact in
          host=*) mnrun_host[$node]=${fact#*=} ;;
          address=*) mnrun_address[$node]=${fact#*=} ;;
          port=*) mnrun_port[$node]=${fact#*=} ;;
          step=*) mnrun_step=${fact#*=} ;;
          image=*) mnrun_image_is[$node]="${fact#*=}" ;;
        esac
      done
      ;;
    nossh) mnrun_nossh[$node]=$rest ;;
    fail) mnrun_failed[$node]=${mnrun_failed[$node]:-$rest} ;;
    gone) mnrun_gone[$node]=$rest ;;
    log) mnrun_logs[$node]+="${mnrun_logs[$node]:+; }$rest" ;;
    rank)
      [[ -n ${mnrun_seen[$node:${rest%% *}]-} ]] || mnrun_count[$node]=$((${mnrun_count[$node]:-0} + 1))
      mnrun_seen[$node:${rest%% *}]=1
      [[ $mnrun_sizes == *" ${rest#* } "* ]] || mnrun_sizes+="${rest#* } "
      ;;
    ended) # the first that failed by itself: srun ends the others by TERM, and later KILL
      rest=${rest#* } fact=${rest%% *} rest=${rest#"${rest%% *}"}
      if [[ $fact != 0 && (-z $mnrun_first_bad || (-n $mnrun_first_told && -z $rest)) ]]; then
        mnrun_first_bad=$fact mnrun_first_told=$rest
      fi ;;
    warned) mnrun_warned=1 ;;
    memory)
      read -r name fact rest <<<"$rest"
      mnrun_memory+="${mnrun_memory:+; }on $node, which had ranks $rest, the job's memory of $((name >> 20)) MB was used up"
      [[ $fact != killed ]] || mnrun_starved=1 ;;
    alone) mnrun_alone=$((mnrun_alone + 1)) ;;
    bye)
      mnrun_bye[$node]=1
      [[ -z ${rest// /} ]] || say "warning: on $node these processes could not be ended: $rest"
      ;;
  esac
}

reason() { # NODE: why it is not ready
  if [[ -n ${mnrun_failed[$1]-} ]]; then
    echo "${mnrun_failed[$1]}"
  elif [[ -n ${mnrun_gone[$1]-} ]]; then
    echo "its container ended with ${mnrun_gone[$1]}${mnrun_logs[$1]:+ (${mnrun_logs[$1]})}"
  elif [[ -n ${mnrun_here_is[$1]-} ]]; then
    echo "not ready yet${mnrun_logs[$1]:+ (${mnrun_logs[$1]})}"
  else
    echo "no word from it"
  fi
}

folded() { # NAMES with commas, as people write them
  { [[ $1 == *,* ]] && scontrol show hostlistsorted "$1" 2>/dev/null; } || echo "$1"
}

reasons() { # NAME: what that table says, and of which nodes
  local -n of=$1
  local -A alike=()
  local name why text=''
  for name in "${mnrun_names[@]}"; do [[ -z ${of[$name]-} ]] || alike[${of[$name]}]+=,$name; done
  for name in "${mnrun_names[@]}"; do
    why=${of[$name]-}
    [[ -n $why && -n ${alike[$why]} ]] || continue
    text+="${text:+; }$(folded "${alike[$why]#,}"): $why" alike[$why]=''
  done
  echo "$text"
}

blame() { # the nodes that keep the job from starting, each with its reason
  local name refusing=0
  local -A blaming=()
  for name in "${mnrun_names[@]}"; do
    [[ -n ${mnrun_ready[$name]-} || (-z ${mnrun_failed[$name]-}${mnrun_gone[$name]-} && -n ${mnrun_here_is[$name]-}) ]] || refusing=1
  done
  for name in "${mnrun_names[@]}"; do
    [[ -z ${mnrun_ready[$name]-} ]] || continue
    ((refusing == 0)) || [[ -n ${mnrun_failed[$name]-}${mnrun_gone[$name]-} || -z ${mnrun_here_is[$name]-} ]] || continue
    blaming[$name]=$(reason "$name")
  done
  echo "${#blaming[@]} of ${#mnrun_names[@]} nodes not ready$1: $(reasons blaming)$(noise)"
}

noise() { # what srun itself has said
  local said
  said=$(tail -n 3 "$mnrun_mine/noise" 2>/dev/null | tr '\n' '|')
  [[ -z $said ]] || echo " (${said%|})"
}

await() { # SECONDS: until every node is ready
  local deadline=$((SECONDS + $1)) spoke name
  mnrun_patience=$1
  while ((${#mnrun_ready[@]} < ${#mnrun_names[@]})); do
    spoke=$((${#mnrun_failed[@]} + ${#mnrun_gone[@]}))
    if [[ -n $mnrun_served || -n $mnrun_code ]] || ((spoke > 0 && spoke + ${#mnrun_ready[@]} >= ${#mnrun_names[@]})); then
      die 121 "$(blame '')"
    fi
    if ((spoke > 0 && deadline > SECONDS + mnrun_grace)); then deadline=$((SECONDS + mnrun_grace)); fi # the rest may speak too
    if ! hear $((deadline - SECONDS)); then
      echo log >&"$mnrun_lease"
      while hear "$mnrun_answer"; do :; done
      ((spoke == 0)) || die 121 "$(blame '')"
      die 124 "$(blame " after $1 s"); --start-timeout gives them longer"
    fi
  done
  for name in "${mnrun_names[@]}"; do
    [[ ${mnrun_image_is[$name]-} == "${mnrun_image_is[$mnrun_head]-}" ]] ||
      die 121 "the image is not the same on all nodes: $(reasons mnrun_image_is); copy one of them to all, or name one that all nodes see"
  done
}

send() { # NAME: standard input, as a file of the job on every node
  echo "file $1 $(base64 -w0)" >&"$mnrun_lease"
}

choose() { # how the containers reach each other, where that was left to the nodes
  local why
  [[ $mnrun_connect == auto ]] || return 0
  mnrun_connect=ssh why=$(reasons mnrun_nossh)
  [[ -z $why ]] || mnrun_connect=pipe
  say "connected by $mnrun_connect${why:+: $why}"
}

go() {
  local name i
  choose
  warn_of_limits
  if [[ $mnrun_connect == pipe ]]; then
    for name in "${mnrun_names[@]}"; do echo "$name ${mnrun_host[$name]} ${mnrun_address[$name]}"; done | send nodes
  elif [[ $mnrun_connect == ssh ]]; then
    {
      for name in "${mnrun_names[@]}"; do
        printf 'Host %s\n    HostName %s\n    Port %s\n' "$name${mnrun_host[$name]:+ ${mnrun_host[$name]}}" \
          "${mnrun_address[$name]:-${mnrun_host[$name]:-$name}}" "${mnrun_port[$name]}"
      done
      sed "s|"$'\x1a'"MNRUN_JOB|$mnrun_id|g" "$mnrun_stage/ssh_config"
    } | send ssh_config
  fi
  if [[ -n $mnrun_inside ]]; then
    for i in "${!mnrun_names[@]}"; do echo "${mnrun_names[i]} slots=${mnrun_ranks[i]}"; done | send hostfile
    for i in "${!mnrun_names[@]}"; do echo "${mnrun_names[i]}:${mnrun_ranks[i]}"; done | send hostfile.hydra
  fi
  echo go >&"$mnrun_lease"
  mnrun_went=1 mnrun_late=${mnrun_counted:+$((SECONDS + mnrun_patience))}
}

overdue() { # whether ranks are missing that should be there
  if begun; then mnrun_late=''; fi
  [[ -n $mnrun_late ]] && ((SECONDS >= mnrun_late))
}

finish() { # SWEEPING WORDS: wait for the program, end everything, and leave with its code
  mnrun_sweeping=("$@")
  while [[ -z $mnrun_code ]]; do
    hand_on
    ! overdue || die 124 "$((mnrun_total - ${#mnrun_seen[@]})) of $mnrun_total ranks have not started $mnrun_patience s after all nodes were ready; mpirun hangs, or --start-timeout gives it longer"
    hear "$((${#mnrun_early} + ${#mnrun_late} ? 1 : 60))" || continue
    if [[ -n $mnrun_warned ]]; then
      mnrun_runs || break
      mnrun_warned=''
    fi
    ((${#mnrun_failed[@]} + ${#mnrun_gone[@]} == 0)) || break
    [[ -z $mnrun_served ]] || break
  done
  exit "${mnrun_code:-0}"
}

ending() { # whatever happened: the program, the lease, every guard's farewell, the records
  local status=$? failing=$BASH_COMMAND name deadline silent=''
  trap '' EXIT TERM INT HUP QUIT USR1 USR2 ALRM CONT
  set +eu
  [[ -z ${mnrun_pull-} ]] || end_pull
  if [[ -n $mnrun_runner && -z $mnrun_code && -n $mnrun_went ]]; then
    echo end >&"$mnrun_lease"
    deadline=$((SECONDS + mnrun_grace))
    while [[ -z $mnrun_code ]] && ((SECONDS < deadline)); do hear 1; done
  fi
  [[ -z $mnrun_lease ]] || exec {mnrun_lease}>&-
  mnrun_lease=''
  deadline=$((SECONDS + mnrun_farewell))
  while [[ -n $mnrun_server && (-z $mnrun_served || (-n $mnrun_runner && -z $mnrun_code)) ]] && ((SECONDS < deadline)); do hear 1; done
  for name in "${!mnrun_ready[@]}"; do [[ -n ${mnrun_bye[$name]} ]] || silent+=" $name"; done
  if [[ -n $silent ]]; then
    say "warning: no farewell from$silent"
    [[ -z $mnrun_served ]] || timeout "$mnrun_farewell" "${mnrun_sweeping[@]}" </dev/null >/dev/null 2>&1
    [[ -n $mnrun_served ]] || scancel "$mnrun_job.$mnrun_step"
  fi
  [[ -n $mnrun_ours ]] || judge "$status" "$silent"
  [[ -z $mnrun_went ]] || prove
  mnrun_ended "$status" "$mnrun_why"
  [[ -z $mnrun_mine ]] || rm -rf "$mnrun_mine"
  exit "$status"
}

blamed() { mnrun_why=${*:2} status=$1; say "$mnrun_why"; } # CODE WHY

judge() { # STATUS SILENT: the program's own code, unless ranks are missing or nodes were lost
  local name i
  status=${mnrun_code:-$1}
  [[ $mnrun_told != TERM ]] || mnrun_warned=1
  # scancel tells every process: the rest is its consequence, and so is the 0 of an mpirun that it ended; where
  # Slurm ends a job for a node that it lost, mpirun may be gone before anybody else is told
  if [[ -n $mnrun_warned || ($mnrun_code == 0 && -n $2) ]] && ! mnrun_runs && [[ $mnrun_code != 0 || -z $mnrun_preempted ]]; then
    case $mnrun_said in
      *Restarts=$((mnrun_restart + 1))*) blamed 143 requeued ;; # the word that its followers know
      *JobState=TIMEOUT* | *Reason=TimeLimit*) blamed 124 "job $mnrun_job reached its time limit" ;;
      *JobState=NODE_FAIL* | *Reason=NodeDown*) blamed 121 "lost while the program ran:$2" ;;
      *) blamed 143 "job $mnrun_job was cancelled" ;;
    esac
    return
  fi
  if [[ -n $mnrun_preempted ]]; then
    mnrun_why=requeued status=${mnrun_code:-143}
    name=${mnrun_went:+still runs} name=${name:-had not begun}
    [[ -z $mnrun_code ]] || name="ended with $mnrun_code"
    say "job $mnrun_job was preempted; its program $name"
    return
  fi
  if [[ -z $mnrun_code && -z $mnrun_went ]]; then
    if ((status == 0)); then status=143; fi # a signal that nobody heeds: it shows as no code
    if ((status > 128)); then
      blamed "$status" "ended by ${mnrun_told:+SIG}${mnrun_told:-a signal} before the program began"
    else
      blamed 121 "on $mnrun_head this failed before the program began: $failing"
    fi
    return
  fi
  if ((status != 0)) && [[ -n $mnrun_first_bad ]]; then status=$mnrun_first_bad; fi # srun's is that of those it ended
  if [[ -n $mnrun_memory ]] && [[ $status == 137 || ($status == 1 && -n $mnrun_starved) ]]; then # Slurm's 1
    blamed 137 "out of memory: $mnrun_memory; ask for more with --mem"
    return
  fi
  for name in "${!mnrun_failed[@]}"; do
    [[ $mnrun_code == 0 ]] || { blamed 125 "$name: ${mnrun_failed[$name]}"; return; }
  done
  for name in "${!mnrun_gone[@]}"; do
    blamed 121 "$name: $(reason "$name")" # whatever mpirun made of it
    return
  done
  if [[ -z $mnrun_code && -n $mnrun_went ]]; then
    blamed 121 "the serving step ended while the program ran$(noise)"
  elif ((status != 0)) && [[ -n $2 ]]; then
    blamed 121 "lost while the program ran:$2"
  elif [[ $mnrun_code == 0 && -n $mnrun_counted ]]; then
    for i in "${!mnrun_names[@]}"; do
      ((${mnrun_count[${mnrun_names[i]}]:-0} == mnrun_ranks[i])) || {
        blamed 121 "${mnrun_count[${mnrun_names[i]}]:-0} ranks started on ${mnrun_names[i]}, but ${mnrun_ranks[i]} were asked for"
        return
      }
    done
    if ((mnrun_alone > 0)); then
      blamed 125 "$mnrun_alone of $mnrun_total ranks took themselves for rank 0 of 1; try --mode inside-out, or another --mpi"
    elif [[ $mnrun_sizes != " $mnrun_total " ]]; then
      blamed 125 "ranks thought that there are$mnrun_sizes of them, not $mnrun_total"
    fi
  fi
}

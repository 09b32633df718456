#!/bin/bash
# The guard runs on each node, outside the container, as `guard.sh [WORDS…]`. boot.sh becomes it. WORDS start the node's
# container. Standard input is the lease (docs/internals/lease-and-guard.md), and PROTOCOL.toml has the words.
# Containers may change everything in `box`. So the guard opens its pipes and files there before a container starts, and
# then neither runs, reads nor writes a file of `box`.
# When the lease ends, the guard ends all processes of the job on this node and removes the node directory.
set -euo pipefail +o posix
trap : USR1 USR2 # for the program, which does not run yet
# A variable that outlives a function begins with mnrun_, here and in all wrappers around a program. bash exports every
# variable again that came from the environment. Any other name could change a variable of the user.
mnrun_here=$PWD # boot.sh made this directory and entered it
source ./sweep.sh # sweep.sh sources job.sh, engines.sh, names.sh and processes.sh
[[ ! -e exposed.sh ]] || source ./exposed.sh # for engines.sh
source ./leftovers.sh
source ./address.sh
source ./home.sh
source ./memory.sh
source ./users.sh
source ./shims.sh
source ./detach.sh
source ./signals.sh
[[ -z $mnrun_serves ]] || source ./attend.sh
memory_before
host_name
mnrun_host=$REPLY
read -r _ mnrun_node _ <own # as boot.sh has learned it
export -n mnrun_address mnrun_peer mnrun_step
mnrun_index=,$mnrun_nodes, mnrun_index=${mnrun_index%%",$mnrun_node,"*}
mnrun_index=${mnrun_index//[!,]/} mnrun_index=${#mnrun_index} # the place of this node among the job's, from 0 on
mnrun_first='' # whether the head runs on this node
[[ $mnrun_node != "${mnrun_nodes%%,*}" ]] || mnrun_first=1
[[ -n $mnrun_first ]] || mnrun_joined='' # whether the head's container is the one of this node
mnrun_awaited=$mnrun_first # whether the head waits here for go, or ranks that the scheduler starts
[[ $mnrun_starter != scheduler ]] || mnrun_awaited=1

# Each line in a pipe is shorter than PIPE_BUF, so the kernel never mixes two writes (pipe(7)). The guard holds the
# pipes open for reading and writing. So no process blocks when it opens one (fifo(7)).
mnrun_at=${mnrun_inside:+box} mnrun_at=${mnrun_at:-.} # mpirun and its daemons run in containers, or on the node
# An image may lack mkfifo. So the guard makes the pipes of the wrappers in the container, too.
mkfifo up idle box/up box/there "$mnrun_at/across" "box/ended.$mnrun_index" \
  ${mnrun_first:+stdin box/ended} ${mnrun_awaited:+"$mnrun_at/go"} \
  ${mnrun_joined:+box/asks} ${mnrun_overhear:+box/said}
# The head opens it by the name that no container can change.
[[ -z $mnrun_first || $mnrun_stdin != rank ]] || ln stdin box/stdin
exec {mnrun_up}<>up {mnrun_mouth}<>box/up {mnrun_there}<>box/there {mnrun_across}<>"$mnrun_at/across"
declare -A mnrun_later=() # files that come before `go`
for mnrun_name in fabric.env master ${mnrun_inside:+nodes ssh_config} ${mnrun_serves:+service}; do
  exec {mnrun_file}>"box/$mnrun_name"
  mnrun_later[box/$mnrun_name]=$mnrun_file
done
unshared() { # Close all these files in a process that becomes another program
  local file
  for file in "$mnrun_up" "$mnrun_mouth" "$mnrun_there" "$mnrun_across" "${mnrun_later[@]}" ${mnrun_go-} ${mnrun_hold-}; do
    exec {file}>&-
  done
}
say() { printf '%s\n' "$*" >&"$mnrun_up"; }

identity() { # Set REPLY to the fact that identifies the image file: its size, and its header as one word
  # A SIF and a squashfs have their creation time in the header.
  local word
  REPLY=''
  if [[ -d $mnrun_image ]]; then
    REPLY=image=directory
  elif [[ -f $mnrun_image && -r $mnrun_image ]]; then
    header "$mnrun_image" 128
    printf -v word %q "$REPLY"
    REPLY=image=$(stat -L -c %s -- "$mnrun_image").${word// /_}
  fi
}

network() { # Report the facts of the node's networks to the launcher
  # Each line holds as many facts as srun keeps whole, with tabs between them (pipe_frames.sh).
  local line lines facts=''
  IFS= read -r -t 20 -N 65536 lines < <(set +e; source ./network_facts.sh 2>/dev/null) || : # an adapter that hangs
  while [[ -n $lines ]]; do
    line=${lines%%$'\n'*} lines=${lines#"${lines%%$'\n'*}"} lines=${lines#$'\n'}
    if ((${#mnrun_node} + ${#facts} + ${#line} > 1000)); then
      printf 'fact %s %s\n' "$mnrun_node" "$facts" 2>/dev/null || return 0
      facts=''
    fi
    facts+=${facts:+$'\t'}$line
  done
  [[ -z $facts ]] || printf 'fact %s %s\n' "$mnrun_node" "$facts" 2>/dev/null || :
}

process() { # FILE PID BEGAN [NAMESPACE]: Note a process of the job, as it has told (pid.sh)
  local about=${2# }
  [[ -z $about ]] || echo "$about" 2>/dev/null >"$1" || true # the disk may be full
}

# The words of containers. A process that a container names counts only if it is the job's (processes.sh, outer).
mnrun_process=' [0-9]{1,9} [0-9]+( pid:\[[0-9]+\])?'
mnrun_words="^(rank [0-9]{1,9} [0-9]{1,9}($mnrun_process| ?)|pid [0-9]{1,9}$mnrun_process|(held|serve)$mnrun_process"
mnrun_words+='|ended [0-9]{1,9} [0-9]{1,3}( told)?|ready( port=[0-9]{1,5})?|starter env)$'
mnrun_commands='^(across|(ask|answer) [A-Za-z0-9._-]+ [0-9]+\.[0-9]+ (words|run|signal|took|got|eof|code|no) [ -~]*)$'

admit() { # Hand on the words that containers may say, and no others
  # A line has an end even where its writer gives it none.
  local line
  while IFS= read -r -n 2048 line <&"$mnrun_mouth"; do
    if [[ $line =~ $mnrun_words ]]; then
      say "$line"
    elif [[ $line == 'fail '* ]]; then
      say "${line//[[:cntrl:]]/ }"
    elif [[ $line == closed && -e closing ]]; then
      break
    elif [[ -n $mnrun_inside && $mnrun_connect == pipe && $line =~ $mnrun_commands ]]; then
      say "$line" # outside-in, a command would run on the node
    fi
  done
}

forward() { # Forward each line of the pipe to the launcher, with the node's name
  local word rest facts line part='' crossing='' gone='' command file lines
  command="^(ask|answer) ${mnrun_node//./\\.} [^ ]+ [0-9]+\\.[0-9]+ ((in|out|err)\\+? [0-9]+ [A-Za-z0-9+/=]*|(eof|code) [0-9a-z ]+)$"
  [[ -z $mnrun_beat ]] || trap '' PIPE
  # The container starts meanwhile.
  network
  address "$mnrun_host"
  facts="host=$mnrun_host address=$REPLY"
  user_name
  facts+=" step=$mnrun_step user=${REPLY// /:}"
  if [[ -n $mnrun_first ]]; then # for the ranks' MASTER_PORT, and a service
    source ./ports.sh
    for file in /proc/net/tcp{,6}; do # ` N: ADDRESS:PORT ADDRESS:PORT STATE …`
      mapfile -t lines <"$file" && lines=("${lines[@]#*: *:}")
      lines=("${lines[@]/ *:???? 06 */.}") part+=" ${lines[*]%% *}" # as `taken`
    done 2>/dev/null || :
    ports $((1 + ${mnrun_serves:-0})) "$part "
    word=${mnrun_free%% *} rest=${mnrun_free#* } rest=${rest%% *}
    facts+=${word:+ master=$word}${rest:+ service=$rest}
  fi
  if [[ $mnrun_nodes == *,* ]]; then # the launcher compares the images of its nodes
    identity
    facts+=${REPLY:+ $REPLY}
  fi
  word='' part=''
  until [[ $word == bye ]]; do
    # A read that times out within a line, as on a busy machine, has stored the first part of the line.
    if IFS= read -r ${mnrun_beat:+-t "$mnrun_beat"} line <&"$mnrun_up"; then
      line=$part$line part=''
      word=${line%% *} rest=${line#"${line%% *}"} rest=${rest# }
    else
      part+=$line word=alive rest=''
    fi
    case $word in
      across)
        [[ -n $crossing ]] || { grep --line-buffered -aE "$command" <&"$mnrun_across" 2>/dev/null & crossing=$!; }
        continue
        ;;
      rank) # RANK SIZE PROCESS, or without the process
        line=${rest#* }
        process "pid.${rest%% *}" "${line#"${line%% *}"}"
        rest="${rest%% *} ${line%% *}"
        ;;
      pid) process "pid.${rest%% *}" "${rest#* }" && continue ;;
      held) process held "$rest" && continue ;;
      serve) [[ -n $gone ]] || process pid.serve "$rest"; continue ;;
      gone) rm -f pid.serve && gone=1 ;;
      ready) rest="$facts $rest" ;;
    esac
    [[ $word != ended || $rest != *' 137'* ]] || memory_note # note it before the step's control group is gone
    if ! printf '%s %s %s\n' "$word" "$mnrun_node" "$rest" 2>/dev/null; then
      kill -HUP $$ # the launcher's end of the pipe is closed
      break
    fi
  done
  [[ -z $crossing ]] || kill -KILL "$crossing"
}

header() { # PATH N: Set REPLY to the first N bytes of a file, with a blank for each NUL, which bash cannot hold
  # Only these bytes are read: a file may be gigabytes of NUL.
  local LC_ALL=C left piece
  REPLY=''
  while ((left = $2 - ${#REPLY})); do
    IFS= read -rd '' -n "$left" piece || { REPLY+=$piece; break; } # the file has ended
    REPLY+=$piece
    ((${#piece} == left)) || REPLY+=' '
  done <"$1" || :
} 2>/dev/null

magic() { # PATH: Set REPLY to SIF_MAGIC or hsqs, which says the format of an image file, else to nothing
  # A SIF has its word after 32 bytes (sif's Header), and squashfs at the beginning.
  header "$1" 41
  if [[ ${REPLY:32:9} == SIF_MAGIC ]]; then
    REPLY=SIF_MAGIC
  elif [[ $REPLY == hsqs* ]]; then
    REPLY=hsqs
  else
    REPLY=''
  fi
}

is_image() { # PATH: test for a SIF, a squashfs or an unpacked tree
  if [[ -e $1/bin/sh || -L $1/bin/sh ]]; then return 0; fi
  [[ -f $1 ]] || return 1 # a FIFO would wait for a writer
  magic "$1"
  [[ -n $REPLY ]]
}

check() { # Check the node's requirements before anything starts
  local kind what usable
  while IFS=$'\t' read -r kind what; do
    case $kind in
      program) command -v "$what" >/dev/null || { say "fail $what is not installed on this node"; return 1; } ;;
      usable) usable=$(usable) || { say "fail $usable"; return 1; } ;;
      'named image')
        usable=$(usable) || { say "fail $usable"; return 1; }
        usable=$(has "$what") || { say "fail $usable"; return 1; } ;;
      image)
        [[ -e $what ]] || { say "fail the image $what is not there: name an image that every node sees"; return 1; }
        [[ -r $what ]] || { say "fail the image $what cannot be read"; return 1; }
        if [[ $mnrun_runtime == charliecloud && -f $what ]] && magic "$what" && [[ $REPLY != hsqs ]]; then
          say "fail $what is not a directory or squashfs file, which charliecloud needs"
          return 1
        fi
        is_image "$what" || { say "fail $what is not a container image (SIF, squashfs or directory)"; return 1; } ;;
      script)
        [[ -e $what ]] || { say "fail the script $what is not there"; return 1; }
        [[ -x $what ]] || { say "fail the script $what cannot be executed: chmod +x"; return 1; } ;;
      *) [[ -e $what ]] || { say "fail the $kind $what is not there"; return 1; } ;;
    esac
  done <needs
  [[ $mnrun_starter != ray ]] || ! memory_group || ! memory_limit || echo "$REPLY" >box/limit
  [[ $mnrun_gpu_bind != closest ]] || usable=$(bash -p ./gpu_numa.sh 2>&1 >box/near) || { say "fail $usable"; return 1; }
}

shared_memory() { # Make the job's directory in /dev/shm, with the same owner's file as the node directory
  local rest
  read -r _ rest <own
  if mkdir -m 700 "$mnrun_shm" 2>/dev/null && echo "$mnrun_shm $rest" 2>/dev/null >"$mnrun_shm/own"; then return 0; fi
  if [[ -e $mnrun_shm || -L $mnrun_shm ]] && ! is_our_directory "$mnrun_shm"; then
    say "fail cannot make $mnrun_shm on this node: another user has made it"
  else
    say "fail cannot make $mnrun_shm on this node: /dev/shm is full, or not writable"
  fi
  return 1
}

listen() { # Read one line of the lease. Return false at its end, and after too long a silence
  local waited=0 part='' line # each part is in REPLY, because a named variable would lose the blanks at its ends
  # The read waits in rounds of 5 s. While Slurm suspends the job, the clock goes on and lines wait in the pipe. One
  # long round would time out before those lines are read.
  # The read has no `IFS=` in front, because a trap that interrupts it would run with that IFS.
  until read -r ${mnrun_silence:+-t 5}; do
    (($? > 128)) || return 1
    part+=$REPLY
    (((waited += 5) < mnrun_silence)) || {
      say "lost it heard nothing from mnrun for $waited s, as where mnrun is stopped"
      return 1
    }
  done
  line=$part$REPLY
  mnrun_word=${line%% *} line=${line#"${line%% *}"} line=${line# }
  mnrun_name=${line%% *} mnrun_data=${line#"${line%% *}"} mnrun_data=${mnrun_data# }
}

text() { # Set REPLY to the bytes that follow the present line of the lease. Return false if they do not come
  # Bash reads a line byte by byte, and with a time limit it needs four system calls for each. So a text has a size.
  # Under Slurm, it has no limit either: Slurm ends the step where a connection breaks in the middle of a text.
  REPLY='' # bash 4.4 would read on to the end for a size of 0
  ((mnrun_data == 0)) || read -rN "$mnrun_data" ${mnrun_beat:+-t "$mnrun_silence"}
}

serves() { # Test whether the container's first process lives. The runtime around it may take longer to end
  local pid start names
  read -r pid start names 2>/dev/null <pid.serve && outer "$pid" "$start" "$names"
}

begin() { # PIPE: Let this node's ranks go on, which wait for a line of PIPE
  # Each takes one line (await.sh, rank.sh). There are more lines than a node has ranks, and any pipe holds them (pipe(7)).
  printf -v REPLY '%4000s' ''
  echo "${REPLY// /$'\n'}" >&"$1"
}

end() { # End the program, through its mpirun where there is one
  if [[ -e pid.head && -n $mnrun_by_mpi && ! -e box/without_mpi ]]; then
    kill_each TERM pid.head
  else
    pass_on TERM
  fi
}

contain() { # WORDS: Run a container. Its standard input is a pipe from the guard, so it ends with the guard
  deaf
  exec {mnrun_life}>&-
  unshared
  exec >>serve.log 2>&1
  if [[ -n ${mnrun_locale-} ]]; then LC_ALL=$mnrun_locale; else export -n LC_ALL; fi
  export -n mnrun_locale
  detach "$@"
  [[ ! -e closing ]] || exit 0 # the guard is about to end and needs no report
  rm -f pid.serve
  exec {mnrun_up}<>up
  last_words >&"$mnrun_up"
  say "gone $mnrun_code"
}

dismiss() { # Stop the head that came through the gate and waits for a go
  local pid start
  [[ -n $mnrun_first && -n ${mnrun_go-} ]] || return 0
  set -C
  if { : >gate; } 2>/dev/null; then return 0; fi # no head has come through, and none can now
  set +C
  [[ -n ${mnrun_went-} ]] || echo stop >&"$mnrun_go"
  for _ in {1..100}; do
    if { read -r pid start <pid.head; } 2>/dev/null && { [[ -n ${mnrun_went-} ]] || ! lives "$pid" "$start"; }; then break; fi
    sleep 0.02
  done
}

ranks_here() { # Print the numbers of this node's ranks, separated by commas
  local ranks=(pid.[0-9]*)
  ranks=("${ranks[@]#pid.}")
  [[ ${ranks[0]} == '[0-9]*' ]] || (IFS=, && echo "${ranks[*]}")
}

enclosed() { # Test whether all other processes of the job on this node run in a container with pids of its own
  # The kernel ends them with the first one (pid_namespaces(7)). So the first one must be below a session of the job's,
  # and have another pid on the node. The head, a question to nvidia-smi and samples run outside of the container.
  # Singularity leaves squashfuse outside, too, in no session of the job's.
  local pid start
  [[ -z $mnrun_first && -z ${mnrun_asking-} && -z ${mnrun_removing-}$mnrun_watch && -n $mnrun_inside && $mnrun_runtime == apptainer ]] &&
    { read -r pid start _ <pid.serve; } 2>/dev/null && ! lives "$pid" "$start" && in_container "$pid" "$start"
}

used() { # Report the networks between nodes that the ranks used
  # Containers have written these files, and have ended. So no file becomes another one meanwhile.
  local file line heard=() lines=()
  [[ ! -L box/heard ]] || return 0
  for file in box/heard/*; do [[ ! -f $file || -L $file ]] || heard+=("$file"); done
  ((${#heard[@]})) || return 0
  mapfile -t -n 64 lines < <(timeout 10 bash -p ./transport_read.sh "${heard[@]:0:4096}" 2>/dev/null)
  for line in "${lines[@]}"; do say "used ${line//[[:cntrl:]]/}"; done
}

watch() { # Report what the job uses, until the guard sweeps
  deaf
  exec <>idle >up
  unshared
  MNRUN_JOB_ID=$mnrun_id exec bash --norc -p ./sample.sh "$mnrun_watch" up
}

removed() { # Wait up to 3 s for the removal of remains, which the sweep would end
  local rests=0
  while stat_of "$mnrun_removing" && [[ ${mnrun_stat[0]} != Z ]]; do # as in outlast
    ((rests++ < 300)) || return 1
    pause_10ms
  done
}

outlast() { # PID: Wait for the end of a container's command, which may have been about to start it at the sweep
  # In a trap, bash leaves a child that has ended as a zombie (Z) until `wait`. Where no file can be opened, the sweep
  # and stat_of have seen nothing, so both look again.
  local rests=0
  while [[ -d /proc/$1 ]] && { ! stat_of "$1" || [[ ${mnrun_stat[0]} != Z ]]; }; do
    pause_10ms
    ((++rests % 20)) || sweep_all
  done
  wait "$1"
}

finish() {
  # A bash that could not fork ends with 254, and each command then waits for its last child (seen on 5.2). So the
  # undertaker does the rest.
  [[ $? != 254 ]] || kill -KILL "$$"
  trap '' TERM INT HUP
  set +e
  [[ ! -e pid.serve || -n $mnrun_joined ]] || serves || say "gone 137" # the head's container ends with its program
  : >closing
  if [[ -n ${mnrun_filter-} ]]; then # pipe_demux.sh
    kill -KILL "$mnrun_filter" 2>/dev/null
    wait "$mnrun_filter" # up to 5.0, bash knows only its last process substitution, and says 127 of others
    (($? == 0 || $? > 126)) ||
      say "fail cannot write to $mnrun_here on this node: ${mnrun_here%/*} is full, or not writable"
  fi
  forget_keys # first, in case a later command fails
  dismiss
  [[ -z ${mnrun_attending-} ]] || { kill -KILL "$mnrun_attending"; wait "$mnrun_attending"; } 2>/dev/null
  for file in box/alone.*; do [[ ! $file =~ ^box/alone\.[0-9]{1,9}$ ]] || say "alone ${file#*.}"; done
  if memory_used_up; then say "memory $REPLY $(ranks_here)"; fi
  if [[ -n ${mnrun_removing-} ]] && removed; then mnrun_removing=''; fi
  if enclosed; then mnrun_enclosed=1; fi
  sweep_all
  [[ ! -d /proc/$mnrun_admitting ]] || echo closed >&"$mnrun_mouth"
  wait "$mnrun_admitting"
  used
  if [[ -s daemons ]]; then
    mapfile -t -n 64 lines <daemons
    for line in "${lines[@]}"; do say "daemons $line"; done
  fi
  for pid in ${mnrun_container_PID-} ${mnrun_holder-}; do outlast "$pid"; done
  say "bye $mnrun_left"
  wait "$mnrun_forwarder"
  wipe
  trap '' PIPE # the undertaker, which reads this pipe, may have been killed
  echo 'done' >&"$mnrun_life"
}

# The helper of a killed srun kills the tasks of that srun, and so this guard. After this word, the undertaker of boot.sh
# then ends the whole job with the files of the kit.
export -n mnrun_life
deaf # also the forwarder, whose own traps would come too late
trap '' PIPE
if ! { echo kit >&"$mnrun_life"; } 2>/dev/null; then # the undertaker could not start
  echo "fail $mnrun_node setsid of this node has no --fork: mnrun needs util-linux 2.32 or newer on the nodes"
  cd / && rm -rf -- "$mnrun_here"
  exit 1
fi
trap - PIPE

echo "$mnrun_node" >self
echo "$mnrun_index" >box/index
echo "$mnrun_node" >box/self
read -r _ mnrun_maker <own
echo "$mnrun_here/box $mnrun_maker" >box/own
forward {mnrun_life}>&- &
mnrun_forwarder=$!
admit {mnrun_life}>&- &
mnrun_admitting=$!
trap finish EXIT
trap 'exit 143' INT HUP
trap 'warned TERM' TERM
# A launcher that is a task of a step receives these signals too, and passes them on.
if [[ ! -e $mnrun_at/in_step ]]; then
  trap 'sent USR1' USR1
  trap 'sent USR2' USR2
fi
for mnrun_name in $mnrun_warnings; do
  # shellcheck disable=SC2064  # the name of this round
  trap "warned $mnrun_name" "$mnrun_name"
done
trap : CONT

session
echo "$REPLY" >sessions
users
mnrun_fit=''
if shared_memory; then
  mnrun_fit=1
  shims
  executable "$mnrun_shm"
fi
[[ -z $mnrun_split ]] || (umask "$mnrun_umask" && mkdir -p "$mnrun_split") || say "fail cannot make $mnrun_split"
if [[ -z $mnrun_fit ]] || ! check; then
  # The launcher may wait for the other nodes to report their failures.
  while listen; do :; done
  exit
fi
for mnrun_place in /tmp/mnrun.* /dev/shm/mnrun.*; do
  [[ -O $mnrun_place && $mnrun_place != "$mnrun_here" && $mnrun_place != "$mnrun_shm" ]] || continue
  (exec {mnrun_life}>&- && remains) </dev/null >/dev/null 2>&1 &
  mnrun_removing=$!
  break
done

if [[ -z $mnrun_no_gpu && -e gpu_users.sh ]]; then
  (exec {mnrun_life}>&- && source ./gpu_users.sh) </dev/null >/dev/null 2>&1 &
  mnrun_asking=$!
fi
[[ -z $mnrun_joined ]] || exec {mnrun_asks}<>box/asks
if [[ -n $mnrun_awaited ]]; then
  exec {mnrun_go}<>"$mnrun_at/go"
  : >open # the head and the ranks wait for this file (await.sh)
else
  exec {mnrun_go}>/dev/null
fi

if [[ -n $mnrun_connect && -z $mnrun_inside ]]; then
  if (($#)); then
    exec {mnrun_hold}> >(contain "$@")
    mnrun_holder=$!
  fi
  set -- bash --norc -p -c "$mnrun_into" "$mnrun_here" clean_env.sh inside-bare serve \
    sh -c "$mnrun_into" "$mnrun_here" worker.sh
fi
if [[ -n $mnrun_joined ]]; then
  : # head.sh starts the container of this node, in which wait_go.sh starts worker.sh
elif (($#)); then
  coproc mnrun_container { contain "$@"; }
  mnrun_asks=${mnrun_container[1]}
else
  say ready
fi

mnrun_part=''
while listen; do
  case $mnrun_word in
    ask | answer) mnrun_line="$mnrun_word $mnrun_name $mnrun_data"; source ./pipe_demux.sh ;;
    words)
      text || break
      [[ -z ${mnrun_asks-} ]] || printf %s "$REPLY" >&"$mnrun_asks" || true
      ;;
    file | file+)
      text || break
      mnrun_part+=$REPLY
      if [[ $mnrun_word == file ]]; then
        mnrun_file=${mnrun_later[$mnrun_name]-} # the job reads it after `go`
        if [[ -n $mnrun_file ]]; then
          printf %s "$mnrun_part" >&"$mnrun_file"
        else
          printf %s "$mnrun_part" >"$mnrun_name"
        fi
        mnrun_part=''
      fi
      ;;
    go)
      mnrun_went=1
      if [[ $mnrun_starter == scheduler ]]; then begin "$mnrun_go"; else echo go >&"$mnrun_go"; fi
      [[ -z $mnrun_watch ]] || { watch {mnrun_life}>&- 2>/dev/null & disown; } # bash would print its end
      [[ -n ${mnrun_filter-} || $mnrun_connect != pipe || $mnrun_nodes != *,* ]] || source ./pipe_demux.sh
      # The guard cannot watch a process that it cannot see.
      [[ ! -e pid.serve || -n $mnrun_joined ]] || serves || rm -f pid.serve
      if [[ -n $mnrun_serves && -n $mnrun_first ]]; then
        attend {mnrun_life}>&- </dev/null >/dev/null 2>&1 &
        mnrun_attending=$!
      fi
      ;;
    there) begin "$mnrun_there" ;;
    log) { last_words; waits; } >&"$mnrun_up" ;;
    signal) pass_on "$mnrun_name" ;;
    end) end ;;
  esac
done

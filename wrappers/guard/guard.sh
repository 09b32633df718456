#!/bin/bash
# The node's side of a job: `guard.sh [CONTAINER WORDS…]`, one on each node, outside the container. The words start
# a container: inside-out the node's own, outside-in the one that the node's ranks share, if they share one.
#
# Its standard input is the lease, a pipe that the launcher holds. Lines on it:
#     file NAME BASE64    write this file into the job's node directory. A text too long for one line comes in pieces:
#                         all but the last are lines `file+ NAME BASE64`
#     go                  everything is there: let the master begin
#     signal NAME         send this signal to the ranks on this node, or to the user's script or prompt, where that is
#                         the program
#     end                 end the program: by its mpirun, where there is one
#     log                 say what the container has said so far
#     over                the lease is at its end. Under pdsh it is a FIFO on the node, which has no end of file
#     alive               the launcher lives. A lease that is silent for mnrun_silence seconds, where that is set, is at
#                         its end
#     ask NODE …          for the node's container; answer NODE … for who has asked there (pipe_frames.sh, pipe_demux.sh).
#                         srun hands every line to all nodes: a grep drops those for another NODE
# At the lease's end everything of the job on this node ends, and the node directory is removed. A TERM from the
# scheduler may be a warning (sbatch --signal, preemption). The guard tells the launcher, who can ask the scheduler,
# and who ends the lease where the job is over. Every signal that the scheduler sends is also meant for the program.
# On standard output it speaks in lines `WORD NODE …`:
#     fact ready nossh fail gone log rank ended warned alone memory used topology alive bye, and ask and answer for
#     other nodes. alive is said only where mnrun_beat says how often: an ssh connection may break without a word
set -euo pipefail +o posix
# Variables that live longer than a function begin with mnrun_, here and in all wrappers around a program: bash exports
# anew whatever variable came from the environment, so any other name could change one of the user's.
mnrun_here=$PWD # boot.sh made it, and began us in it
source ./sweep.sh # which has job.sh, engines.sh and processes.sh
source ./leftovers.sh
source ./address.sh
source ./home.sh
source ./memory.sh
mnrun_node=${MNRUN_NODE:-${SLURMD_NODENAME:-$(uname -n)}}

# Everyone on this node (guard, container, ranks) speaks through this pipe. A line is shorter than PIPE_BUF: such a
# write is never mixed with another (pipe(7)). The guard holds the pipe open for reading and writing, so that nobody
# blocks when they open it (fifo(7)).
mkfifo up
exec {mnrun_up}<>up
say() { printf '%s\n' "$*" >&"$mnrun_up"; }

identity() { # of the image file: its size, and a sum of its header, where a SIF and a squashfs say when they were made
  if [[ -d $mnrun_image ]]; then
    echo image=directory
  elif [[ -r $mnrun_image ]]; then
    echo "image=$(stat -L -c %s -- "$mnrun_image").$(head -c 128 -- "$mnrun_image" | cksum | cut -d' ' -f1)"
  fi
}

last_words() { # the container's own
  tail -n 5 serve.log 2>/dev/null | while read -r line; do say "log ${line:0:500}"; done
}

deaf() { trap '' HUP INT TERM USR1 USR2; } # Slurm sends a step's signal to every process of the step

forward() { # to the launcher, each line with the node's name
  local word rest facts line part=''
  deaf
  [[ -z $mnrun_beat ]] || trap '' PIPE
  facts=''
  # While containers start. As many facts go into a line, with tabs between, as srun keeps whole (pipe_frames.sh).
  while IFS= read -r line; do
    if ((${#mnrun_node} + ${#facts} + ${#line} > 1000)); then
      printf 'fact %s %s\n' "$mnrun_node" "$facts" 2>/dev/null || break
      facts=''
    fi
    facts+=${facts:+$'\t'}$line
  done < <(exec timeout 20 bash -p ./network_facts.sh 2>/dev/null)
  [[ -z $facts ]] || printf 'fact %s %s\n' "$mnrun_node" "$facts" 2>/dev/null || :
  line=''
  facts="host=$(uname -n) address=$(<own.address) step=${SLURM_STEP_ID:-} user=$(id -un | tr ' ' :) $(identity)"
  until [[ ${word-} == bye ]]; do
    # A read that times out within a line, as on a busy machine, has stored the line's first part.
    if IFS= read -r ${mnrun_beat:+-t "$mnrun_beat"} line <&"$mnrun_up"; then
      line=$part$line part=''
      word=${line%% *} rest=${line#"${line%% *}"} rest=${rest# }
    else
      part+=$line word=alive rest=''
    fi
    [[ $word == ready ]] && rest="$facts $rest"
    [[ $word != ended || $rest != *' 137'* ]] || memory_note # before Slurm removes the step's control group
    if ! printf '%s %s %s\n' "$word" "$mnrun_node" "$rest" 2>/dev/null; then
      kill -HUP $$ # nobody hears us any more
      return
    fi
  done
}

is_image() { # a SIF, a squashfs, or an unpacked tree
  [[ -e $1/bin/sh || -L $1/bin/sh ]] || head -c 512 "$1" | grep -aqE 'SIF_MAGIC|^hsqs'
}

check() { # what every node must have, before anything is started
  local kind what usable
  while IFS=$'\t' read -r kind what; do
    case $kind in
      program) command -v "$what" >/dev/null || { say "fail $what is not installed on this node"; return 1; } ;;
      usable) usable=$(usable) || { say "fail $usable"; return 1; } ;;
      'named image')
        usable=$(usable) || { say "fail $usable"; return 1; }
        usable=$(has "$what") || { say "fail $usable"; return 1; } ;;
      image)
        [[ -e $what ]] || { say "fail the image $what is not there: name one that every node sees, or has"; return 1; }
        [[ -r $what ]] || { say "fail the image $what cannot be read"; return 1; }
        if [[ $mnrun_runtime == charliecloud && -f $what ]] && ! head -c 4 "$what" | grep -q hsqs; then
          say "fail $what is no directory or squashfs file, which charliecloud needs"
          return 1
        fi
        is_image "$what" || { say "fail $what is not a container image (SIF, squashfs or directory)"; return 1; } ;;
      script)
        [[ -e $what ]] || { say "fail the script $what is not there"; return 1; }
        [[ -x $what ]] || { say "fail the script $what cannot be executed: chmod +x"; return 1; } ;;
      *) [[ -e $what ]] || { say "fail the $kind $what is not there"; return 1; } ;;
    esac
  done <needs
  [[ $mnrun_gpu_bind != closest ]] || bash -p ./gpu_numa.sh >near 2>/dev/null ||
    { say "fail nvidia-smi shows no GPU on this node, and --gpu-bind closest asks it for them"; return 1; }
}

shared_memory() { # the job's directory there, which says whose it is as the other does
  local rest
  if mkdir -m 700 "$mnrun_shm" 2>/dev/null; then
    read -r _ rest <own
    echo "$mnrun_shm $rest" >"$mnrun_shm/own"
  else
    say "fail cannot make $mnrun_shm on this node: $([[ -e $mnrun_shm ]] && echo somebody else has made it || echo /dev/shm is full, or not writable)"
    return 1
  fi
}

listen() { # for a line of the lease; false at its end, and where it is silent for longer than it may be
  local waited=0 part='' line
  # Rounds of 5 s: the clock goes on while Slurm suspends the job, and lines then wait in the pipe. One long round would
  # end before they are read. There is no `IFS=` before the read: a trap that interrupts it would run with that IFS.
  until read -r ${mnrun_silence:+-t 5} line; do
    (($? > 128 && (waited += 5) < mnrun_silence)) || return
    part+=$line
  done
  line=$part$line
  mnrun_word=${line%% *} line=${line#"${line%% *}"} line=${line# }
  mnrun_name=${line%% *} mnrun_data=${line#"${line%% *}"} mnrun_data=${mnrun_data# }
}

outer() { # PID BEGAN [NAMESPACE]: the node's own number of the process that has this number in its container
  local status pid
  [[ $1 =~ ^[0-9]+$ ]] || return 0
  if [[ -z ${3-} ]]; then
    ! lives "$1" "$2" || echo "$1"
    return
  fi
  while read -r status; do
    pid=${status//[!0-9]/}
    if [[ $(readlink "/proc/$pid/ns/pid") == "$3" ]] && lives "$pid" "$2"; then echo "$pid"; fi
  done < <(grep -lsE "^NSpid:.*[[:space:]]$1\$" /proc/[0-9]*/status)
}

serves() { # whether the container's first process lives. The runtime around it may take longer to end
  local pid start names
  read -r pid start names 2>/dev/null <pid.serve && [[ -n $(outer "$pid" "$start" "$names") ]]
}

kill_each() { # SIGNAL FILE…: the processes that these files name, all at the same time
  local file pid start names pids=()
  for file in "${@:2}"; do
    read -r pid start names <"$file" || continue
    mapfile -t -O "${#pids[@]}" pids < <(deaf && outer "$pid" "$start" "$names") # the same signal may come again, to each of us
  done
  ((${#pids[@]} == 0)) || kill -s "$1" "${pids[@]}" 2>/dev/null || true
}

pass_on() { # SIGNAL: to the program
  local ranks=(pid.[0-9]*)
  if [[ -e ${ranks[0]} ]]; then
    kill_each "$1" "${ranks[@]}"
  elif [[ -e pid.head ]]; then
    kill_each "$1" pid.head
  fi
}

end() { # by its mpirun, where it has one
  if [[ -e pid.head && -n $mnrun_by_mpi ]]; then kill_each TERM pid.head; else pass_on TERM; fi
}

warned() { # at a TERM, which warns the program. Whether the job is over, too, is for the launcher to find out
  say warned
  # A launcher that lives soon says so. KillWait in slurm.conf, the time from TERM to KILL, is 30 s by default.
  [[ -z $mnrun_silence || -n $mnrun_beat ]] || mnrun_silence=15
  sent TERM
}

declare -A mnrun_heard=()
sent() { # SIGNAL: the scheduler has sent it to our step. Where ranks or their mpirun are steps, they have it already
  # It comes twice where the launcher is in a step itself: the launcher's srun passes the same signal on.
  ((SECONDS > ${mnrun_heard[$1]:--9} + 2)) || return 0
  mnrun_heard[$1]=$SECONDS
  if [[ -n ${mnrun_went-} && -n $mnrun_connect && $mnrun_shell != terminal ]]; then pass_on "$1"; fi
}

box() { # WORDS: a container. Its standard input is a pipe that the guard holds: it ends with the guard
  mnrun_code=0 # with our prefix, since a `local code` would hide the user's own variable from the container
  deaf
  exec {mnrun_life}>&-
  [[ -z ${mnrun_hold-} ]] || exec {mnrun_hold}>&-
  bash -p ./detach.sh "$@" >>serve.log 2>&1 {mnrun_up}>&- {mnrun_go}>&- || mnrun_code=$?
  [[ ! -e closing ]] || exit 0 # its guard is about to end, and says no more of it
  rm -f pid.serve
  last_words
  say "gone $mnrun_code"
}

carry() { # from here on also what the nodes' commands say to each other
  # `read` takes a pipe byte by byte, since it must not take what follows its line (POSIX, read); `read -N` and grep
  # take blocks. So data goes to pipe_demux.sh, in records of one length, and only the words come to us.
  local lease mine="${mnrun_node//./\\.} [^ ]+ [^ ]+"
  trap : PIPE # what we write to a container that has ended shall not end us
  rm -f key hostkey # they are for ssh, and the pipe was chosen
  mkfifo across
  exec {mnrun_across}<>across
  (deaf && exec {mnrun_life}>&- {mnrun_up}>&- {mnrun_go}>&- && exec grep --line-buffered -a . <&"$mnrun_across") &
  mnrun_crossing=$!
  # shellcheck disable=SC2094
  exec {lease}< <(
    deaf
    exec {mnrun_life}>&- {mnrun_up}>&- {mnrun_go}>&- {mnrun_across}>&-
    exec tee >(grep --line-buffered -aE "^(answer $mine|ask $mine (in\\+?|eof|took)( |\$))" |
      dd ibs=65536 obs=1023 cbs=1023 conv=block 2>/dev/null | exec bash -p ./pipe_demux.sh >/dev/null)
  )
  mnrun_filter=$!
  exec < <(deaf && exec {mnrun_life}>&- {mnrun_up}>&- {mnrun_go}>&- {mnrun_across}>&- &&
    exec grep --line-buffered -aE "^(ask $mine (words\\+?|run|signal)|file\\+?|go|log|signal|end|over|alive)( |\$)" <&"$lease")
  exec {lease}<&-
}

dismiss() { # the head, which has come through the gate and waits for a go that does not come
  local round pid start
  if [[ -z ${mnrun_go-} ]] || mv gate closed 2>/dev/null; then return; fi # no head has come through, and none can now
  [[ -n ${mnrun_went-} ]] || echo stop >&"$mnrun_go"
  for round in {1..100}; do
    if { read -r pid start <pid.head; } 2>/dev/null && { [[ -n ${mnrun_went-} ]] || ! lives "$pid" "$start"; }; then break; fi
    sleep 0.02
  done
}

ranks_here() { # their numbers, with commas
  local ranks=(pid.[0-9]*)
  ranks=("${ranks[@]#pid.}")
  [[ ${ranks[0]} == '[0-9]*' ]] || (IFS=, && echo "${ranks[*]}")
}

topology() { # of GPUs and network, for the job's records. nvidia-smi may take long, so the job goes on meanwhile
  local line
  command -v nvidia-smi >/dev/null && [[ -z $mnrun_no_gpu ]] || return 0
  deaf
  MNRUN_JOB_ID=$mnrun_id timeout 60 nvidia-smi topo -m 2>/dev/null </dev/null | sed $'s/\e\\[[0-9;]*m//g' |
    while IFS= read -r line; do say "topology :${line:0:500}"; done
}

finish() {
  trap '' TERM INT HUP
  set +e
  [[ ! -e pid.serve ]] || serves || say "gone 137"
  : >closing
  if [[ -n ${mnrun_filter-} ]]; then
    kill -KILL "$mnrun_filter" "$mnrun_crossing"
    wait "$mnrun_crossing" 2>/dev/null
  fi
  rm -f key hostkey # first of all: whatever else fails, no key stays
  dismiss
  for file in alone.*; do [[ ! -e $file ]] || say "alone ${file#*.}"; done
  if memory_used_up; then say "memory $REPLY $(ranks_here)"; fi
  left=$(sweep_all)
  while read -r line; do say "used $line"; done < <(timeout 10 bash -p ./transport_read.sh heard/* 2>/dev/null)
  for pid in ${mnrun_box_PID-} ${mnrun_holder-}; do wait "$pid"; done
  say "bye $left"
  wait "$mnrun_forwarder"
  wipe
  trap '' PIPE # its undertaker, which reads this, may have been killed
  echo 'done' >&"$mnrun_life"
}

# This guard may be killed, too: srun's own helper does that to the tasks of a srun that was killed. Then the undertaker
# that boot.sh has started notices. From this word on it ends the whole job, as the kit's files describe it.
export -n mnrun_life
echo kit >&"$mnrun_life"

echo "$mnrun_node" >self
address >own.address # for who starts ranks here, too
forward {mnrun_life}>&- &
mnrun_forwarder=$!
trap finish EXIT
trap 'exit 143' INT HUP
trap warned TERM
trap 'sent USR1' USR1
trap 'sent USR2' USR2
trap : CONT

mkdir -m 700 tmp serve hold heard
session
echo "$REPLY" >sessions
bash -p ./users.sh
mnrun_fit=''
if shared_memory; then
  mnrun_fit=1
  bash -p ./mount_shims.sh "$mnrun_shm"
fi
[[ -z $mnrun_split ]] || (umask "$mnrun_umask" && mkdir -p "$mnrun_split") || say "fail cannot make $mnrun_split"
if [[ -z $mnrun_fit ]] || ! check; then
  # The launcher ends the lease, not we: it may wait for what the other nodes lack.
  while listen && [[ $mnrun_word != over ]]; do :; done
  exit
fi
for mnrun_place in /tmp/mnrun.* /dev/shm/mnrun.*; do
  [[ -O $mnrun_place && $mnrun_place != "$mnrun_here" && $mnrun_place != "$mnrun_shm" ]] || continue
  (exec {mnrun_life}>&- && remains) </dev/null >/dev/null 2>&1 &
  break
done

topology {mnrun_life}>&- </dev/null >/dev/null 2>&1 &
mkfifo stdin
mkfifo gate.new
exec {mnrun_go}<>gate.new
mv gate.new gate # the head waits for it, and makes it `go` as it comes

if [[ -n $mnrun_connect && -z $mnrun_inside ]]; then # an sshd of the job's lets the host's mpirun in, beside the container
  if (($#)); then
    exec {mnrun_hold}> >(box "$@")
    mnrun_holder=$!
  fi
  set -- bash -p -c "$mnrun_into" "$mnrun_here" clean_env.sh inside-bare serve sh -c "$mnrun_into" "$mnrun_here" worker.sh
fi
if (($#)); then
  coproc mnrun_box { box "$@"; }
else
  say ready
fi

mnrun_part=''
while listen; do
  case $mnrun_word in
    ask) printf '%s\n' "$mnrun_data" >&"${mnrun_box[1]}" || true ;;
    file+) mnrun_part+=$mnrun_data ;;
    file)
      base64 -d <<<"$mnrun_part$mnrun_data" >"$mnrun_name.new"
      mv "$mnrun_name.new" "$mnrun_name"
      mnrun_part=''
      ;;
    go)
      mnrun_went=1
      [[ ! -e nodes ]] || carry # `nodes` is there only where the pipe connects (connect/pipe.py)
      echo go >&"$mnrun_go"
      serves || rm -f pid.serve # a process that is hidden from here cannot be watched
      ;;
    log) last_words ;;
    signal) pass_on "$mnrun_name" ;;
    end) end ;;
    over) break ;;
  esac
done

#!/bin/bash
# shellcheck disable=SC2034,SC2154  # the scripts in front of it read and set these
# fetch.sh runs this on a node for PREPARE, before any process of the job.
# needs: say.sh engines.sh() pull_file.sh pull_store.sh
# It brings an image to this node: `pull_image.sh KIND REFERENCE POLICY CACHE JOB PROGRAM…`.
# The rest of its standard input is a lease. When the lease ends, all its processes end, and no partial file remains.
# Where mnrun_beat and mnrun_silence are set, both sides send signs of life, as for guards (guard.sh).
set -euo pipefail +o posix
kind=$1 reference=$2 policy=$3 cache=$4 job=$5
mnrun_podman=$4 mnrun_id=$5 mnrun_runtime=$6
engines
program=("${@:6}")
node=$mnrun_node

nap() { read -rt "$1" -u "$pause" || true; } # SECONDS: Wait on a pipe that is never written, without a process

unpulled() { last unpulled "$(why)"; } # Report a fault of the image, and exit

clean() { # SPARE LOCK OWNER JOB: End and remove all that was started here
  # The main shell runs this at its end, or the undertaker if it was killed. Both have SPARE as their working directory.
  # The undertaker finishes a removal in which the main shell was killed. So both use the same name for the lock.
  local group='' away=$2.${3// /.}.gone layer
  { read -r group <./group; } 2>/dev/null
  [[ ! $group =~ ^[0-9]+$ ]] || ((group < 2)) || kill -KILL -- "-$group" 2>/dev/null
  end_marked "$4"
  if [[ -n $2 && $(cat "$2/owner" 2>/dev/null) == "$3" ]]; then
    for layer in "${2%.lock}.layers"/*; do # a partial one has a longer name (Apptainer 1.4.5)
      [[ ! -e $layer || ${layer##*/} =~ ^[0-9a-f]{64}$ ]] || rm -f -- "$layer"
    done
    mv "$2" "$away"
  fi
  [[ -z $2 || ! -e $away ]] || rm -rf -- "$away"
  if [[ -O . && . -ef $1 ]]; then # the user owns this directory, and it is the working directory
    chmod -R u+rwX . 2>/dev/null
    rm -rf -- "$1"
  fi
}

undertake() { # SPARE LOCK OWNER JOB: Wait for the end of the main shell, and clean if it was killed
  local word
  trap '' HUP INT TERM USR1 USR2
  while read -r word; do [[ $word != 'done' ]] || return 0; done
  clean "$@"
}

finish() {
  ((BASHPID == $$)) || return 0 # a child that ends before it has reset its traps runs this trap, too
  set +e
  cleaned
  [[ -z ${watch-} ]] || kill "$watch" 2>/dev/null
}

cleaned() { # Clean up once, and dismiss the undertaker
  # A lease that ends now must wait. Where Slurm holds steps in control groups, the undertaker dies with this shell.
  trap '' TERM INT HUP
  [[ -n ${life-} ]] || return 0
  local told=$life
  life=''
  clean "$spare" "$lock" "$owner" "$job"
  trap '' PIPE # the undertaker, which reads this pipe, may have been killed
  echo 'done' >&"$told"
  exec {told}>&-
}

# --- plain error messages for a runtime's output

last_line() { # Print the last line of the runtime's output, without colours and the name of the failed part
  sed -e 's/\x1b\[[0-9;]*m//g' -e 's/.*\r//' "$spare/log" 2>/dev/null | grep -v '^ *$\|^hint: ' | tail -n 1 |
    sed -E 's/^(FATAL|ERROR|Error|error) *: *|^Error response from daemon: *//; s/(While making image from oci registry|error fetching image to cache|failed to get checksum for [^ ]*): //g'
}

why() { # Print why the image is missing, and the remedy
  local said registry=${reference#*://}
  said=$(last_line)
  [[ $registry == */* ]] || registry=docker.io/$registry
  registry=${registry%%/*}
  [[ $registry == *[.:]* || $registry == localhost ]] || registry=docker.io
  # The order counts. A line that names a program or a refusal often also has `not found` or `does not exist`.
  case $said in
    *"command not found"*) echo "cannot pull $reference: this node lacks the program: install it, or load its module ($said)" ;;
    *"docker-credential-"*"executable file not found"*)
      echo "cannot pull $reference: the login helper of ~/.docker/config.json is not on this node: remove credsStore from that file, and log in again ($said)" ;;
    *"executable file not found"*) echo "cannot pull $reference: this node lacks a program that ${program[0]} needs ($said)" ;;
    # Below, `permission denied` is the kernel's text for a file (EACCES), not a registry's.
    *"permission denied"*) echo "cannot pull $reference: $said" ;;
    *"unauthorized or not in registry"*) # ch-image does not say which
      echo "there is no $reference, or $registry wants a login: check its name and tag, or set $login ($said)" ;;
    *uthentication* | *nauthorized* | *denied* | *"no basic auth"* | *forbidden* | *Forbidden*)
      echo "$registry refuses the login for $reference: $login ($said)" ;;
    *"manifest unknown"* | *"name unknown"* | *"not found"* | *"does not exist"*)
      echo "there is no $reference: check its name and tag ($said)" ;;
    *toomanyrequests*) echo "$registry refuses further requests from here: $login ($said)" ;;
    *"no such host"* | *"server misbehaving"* | *"Name or service not known"*)
      echo "the name ${registry%:*} does not resolve on this node: $offline ($said)" ;;
    *x509* | *CERTIFICATE_VERIFY_FAILED*) echo "this node does not trust the certificate of $registry: an admin adds its CA to the system's certificates ($said)" ;;
    *"onnection refused"* | *"i/o timeout"* | *unreachable* | *"no route to host"* | *"context deadline"*)
      echo "the registry $registry does not answer: $offline ($said)" ;;
    *"o space left"* | *"quota exceeded"*) echo "no space left: $room ($said)" ;;
    *) echo "cannot pull $reference: ${said:-${program[0]} said nothing}" ;;
  esac
}

come() { # GROWING…: Set REPLY to the MB that the runtime has fetched by now, or to ""
  local place size sum=0
  REPLY=''
  if [[ $mnrun_runtime == podman ]]; then # it fetches layers to files there, before it puts them into its store
    set --
    for place in "${TMPDIR:-/var/tmp}"/container_images_storage*; do
      [[ ! -O $place || ! $place -nt $spare/group ]] || set -- "$@" "$place"
    done
  fi
  (($#)) || return 0
  while read -r size _; do ((sum += size)) || true; done < <(du -sb -- "$@" 2>/dev/null)
  ((sum < 1000000)) || REPLY=$((sum / 1000000))
}

layers() { # Set REPLY to docker's progress by the lines of the log. It tells sizes only to a terminal
  local line every=0 complete=0
  while read -r line; do
    case $line in
      *': Pulling fs layer') ((every += 1)) ;;
      *': Already exists') ((every += 1, complete += 1)) ;;
      *': Pull complete') ((complete += 1)) ;;
    esac
  done <"$spare/log"
  REPLY="$complete of $every layers"
  ((every)) || REPLY=''
}

run() { # WORDS: Run a command of the runtime in a process group of its own. A tender reports its output meanwhile
  local tender pid code=0
  set -m
  MNRUN_JOB_ID=$job "$@" >"$spare/log" 2>&1 </dev/null {life}>&- &
  pid=$!
  set +m
  echo "$pid" >"$spare/group"
  {
    trap - EXIT
    local beat=0 said='' come='' now REPLY
    while kill -0 $$ 2>/dev/null; do
      [[ -z $lock ]] || echo "$((beat += 1))" >"$lock/beat" || true
      now=$(sed -e 's/.*\r//' -e 's/^INFO: *//' "$spare/log" | grep -v '^ *$\|warn rootless' | tail -n 1)
      if [[ $mnrun_runtime == docker ]]; then
        layers
        now=${REPLY:-$now}
      fi
      [[ $now == "$said" ]] || say pulling "${now:0:200}"
      said=$now
      come "${growing[@]}"
      [[ -z $REPLY || $REPLY == "$come" ]] || say pulled "$REPLY"
      come=$REPLY
      nap 1
    done
  } {life}>&- 2>/dev/null &
  tender=$!
  wait "$pid" || code=$?
  kill -KILL "$tender" 2>/dev/null || true # KILL, because a subshell that has just begun can lose any other signal
  wait "$tender" 2>/dev/null || true
  rm -f "$spare/group"
  return "$code"
}

growing=() # what grows while the runtime fetches an image
roomy=TMPDIR base=${TMPDIR:-/tmp}
if [[ $kind == file ]]; then # Apptainer heeds its own variables before TMPDIR
  for name in SINGULARITY_TMPDIR APPTAINER_TMPDIR; do [[ -z ${!name-} ]] || { roomy=$name base=${!name}; }; done
fi
spare=$base/mnrun.pull.$$.$RANDOM lock='' owner="$node $$"
! exposed "$spare" ||
  fail "other users may write to $REPLY, which is to contain $spare: name another directory with $roomy"
[[ $kind != file ]] || name_it
{ mkdir -m 700 -- "$spare" 2>/dev/null && cd -- "$spare"; } ||
  fail "cannot write to $base: name another directory with $roomy"
exec {life}> >(setsid bash --norc -p -c "$(declare -f clean end_marked jobs_around marked by_mark undertake)
  undertake \"\$@\" <&0 >/dev/null 2>&1 &" undertake "$spare" "$lock" "$owner" "$job")
exec {pause}<> <(:)
trap finish EXIT
trap 'trap "" TERM INT HUP; exit 143' TERM INT HUP
trap '' USR1 USR2 # Slurm sends a step's signal to all its processes, and it is for the program
{
  trap - EXIT
  trap '' PIPE # the reader of the output may have gone
  waited=0
  # Every line is only a sign of life. `read` returns more than 128 where no line came in time. The rounds have 5 s.
  # While Slurm suspends the job, the clock goes on. One long round would end before the waiting lines are read.
  while read -r ${mnrun_silence:+-t 5} && waited=0 || (($? > 128 && (waited += 5) < mnrun_silence)); do
    [[ -z $mnrun_beat ]] || say alive || break
  done
  kill -TERM $$
} <&0 {life}>&- 2>/dev/null &
watch=$!
if [[ $kind == file ]]; then in_cache; else in_store; fi
set +e
cleaned # other nodes may wait for the lock, so this comes before the end
trap 'exit 0' TERM INT HUP
wait "$watch" # the launcher ends the lease once all nodes have the image

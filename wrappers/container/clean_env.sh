#!/bin/bash
# shellcheck disable=SC1090,SC2154  # adverbs, and names of into.sh
# into.sh runs this on the node with CONTEXT PLACE [ADVERB…] WORDS…. WORDS start a container runtime.
# It removes the variables that leak in this CONTEXT (launcher/mnrun/environment.py), adds the job's mark, and sets
# TMPDIR to PLACE in `box`. Then it becomes WORDS.
# An ADVERB, `./NAME.sh`, changes the variables, or WORDS, which are its "$@".
# A runtime starts where the user started mnrun, so that relative paths in its options and variables mean what they mean
# there. Without a container, WORDS start in the job's directory, and rank.sh returns to the directory of its starter.
mnrun_posix=(${POSIXLY_CORRECT+env "POSIXLY_CORRECT=$POSIXLY_CORRECT"}) # `set +o posix` unsets it, and it is for WORDS
set -euo pipefail +o posix
mnrun_context=$1 mnrun_place=$mnrun_here/box/$2
shift 2
source ./job.sh
source ./rules.sh
source ./home.sh
source ./search.sh
source ./processes.sh
source ./path.sh # a rank of the host's mpirun has that of its mpirun

# The guard ends the remaining processes of this session. A prompt on this machine shares the session of its user,
# so that session is not noted.
session
[[ $mnrun_shell == terminal && ${REPLY% *} != "$$" ]] || echo "$REPLY" >>sessions
if [[ $mnrun_place == */hold ]]; then # Apptainer names the shared instance by the second pid, if there is one
  echo "$$ $PPID" >holder
  source ./sweep.sh
  source ./leftovers.sh
  remove_instance_files "$PPID" # a power failure of the node may have left one
  ghosts >/dev/null
  if [[ -e /dev/shm/sharens_instance_$PPID || -L /dev/shm/sharens_instance_$PPID ]]; then
    # Another user has made the name. Without it, the ranks join by nsenter.
    echo "$$" >holder
    for mnrun_word; do
      shift
      [[ $mnrun_word == --sharens ]] || set -- "$@" "$mnrun_word"
    done
  fi
fi

# Of a rank that the scheduler starts, the scheduler's package has more to say. It may set mnrun_shared, the directories
# that the step shares with the rank, and write step.places, which names what a killed step leaves behind.
# shellcheck disable=SC2034
mnrun_shared=()
# shellcheck source=/dev/null
[[ $mnrun_place != */tmp || ! -e step.sh ]] || source ./step.sh

at_least() { # NAME LETTER NUMBER UNIT NOW: Raise the soft limit to NUMBER UNITs, from NOW
  # The hard limit bounds it. A limit of --ulimit stays.
  if [[ " $mnrun_limited " == *" $1 "* || $5 == unlimited ]] || (($5 >= $3 * $4)); then return 0; fi
  ulimit -S "-$2" "$3" 2>/dev/null || ulimit -S "-$2" hard
}
[[ " $mnrun_limited " == *" memlock "* ]] || ulimit -S -l hard
while read -ra mnrun_word; do
  case ${mnrun_word[*]:0:3} in
    'Max stack size') at_least stack s 65536 1024 "${mnrun_word[3]}" ;;
    'Max open files') at_least nofile n 65536 1 "${mnrun_word[3]}" ;; # older programs close them one by one
  esac
done </proc/self/limits

drop() { # Remove the variables that leak. Set mnrun_odd to options of env for the names that a shell cannot unset
  local name names
  mnrun_odd=()
  removed "$mnrun_context"
  mapfile -d '' -t names </proc/self/environ
  for name in "${names[@]%%=*}"; do
    # shellcheck disable=SC2053  # a pattern
    [[ $name != $mnrun_removed ]] || unset -v "$name" 2>/dev/null || mnrun_odd+=(-u "$name")
  done
}
drop
export "MNRUN_JOB_ID=$mnrun_id" "TMPDIR=$mnrun_place"
if [[ $mnrun_context == *-bare ]]; then
  export "mnrun_from=$mnrun_back"
elif [[ -d steady ]]; then
  PATH=$mnrun_here/steady:$PATH
fi
mnrun_adverbs=() # each sees the words of the runtime alone
while [[ $1 == ./*.sh ]]; do
  mnrun_adverbs+=("$1")
  shift
done
for mnrun_adverb in "${mnrun_adverbs[@]}"; do source "$mnrun_adverb"; done
[[ $mnrun_context == *-bare ]] || mnrun_search # before the `cd` below
if [[ $mnrun_place == */hold ]]; then # for join_container.sh
  while read -r mnrun_name; do printf '%s=%s\0' "$mnrun_name" "${!mnrun_name}"; done < <(compgen -e) >hold.env
fi
# Where the node lacks that directory, a path is looked for in one in which no engine can make it.
[[ $mnrun_context == *-bare ]] || cd -- "$mnrun_cwd" 2>/dev/null || cd /proc
((${#mnrun_odd[@]} == 0)) || set -- env "${mnrun_odd[@]}" "$@"
exec "${mnrun_posix[@]}" "$@"

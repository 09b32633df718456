# shellcheck shell=bash disable=SC2154  # job.sh's and clean_env.sh's
# clean_env.sh sources this adverb for a rank of a container that the node's ranks share. It waits for the container,
# and changes the words of ch-run or Apptainer so that they join it.
# Apptainer takes as much CPU time to join a container as to start one. The owner of a user namespace may enter it, with
# all that belongs to it (user_namespaces(7)), and nsenter does so at hardly any cost.

changes() { # PID: Set mnrun_changes to shell lines for Apptainer's changes to the environment of the container's PID
  # hold.env is the environment in which Apptainer began. These lines change that of a rank in the same way.
  # `own` has the names to leave alone: those that a shell sets (PWD … _), and those of Apptainer that differ because
  # this rank joins (BIND, SHARENS_MASTER).
  local pair name own='^(PWD|OLDPWD|SHLVL|_|E?UID|PPID|SHELLOPTS|BASHOPTS|BASH_VERSINFO'
  own+='|(APPTAINER|SINGULARITY)_(BIND|SHARENS_MASTER))$'
  local -A before=()
  local LC_ALL=C
  mnrun_changes=''
  while IFS= read -rd '' pair; do before[${pair%%=*}]=${pair#*=}; done <hold.env
  while IFS= read -rd '' pair; do
    name=${pair%%=*} pair=${pair#*=}
    [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ && ! $name =~ $own ]] || continue
    [[ -v before[$name] && ${before[$name]} == "$pair" ]] || mnrun_changes+="export $name='${pair//\'/\'\\\'\'}'"$'\n'
    unset "before[$name]"
  done <"/proc/$1/environ"
  for name in "${!before[@]}"; do [[ $name =~ $own ]] || mnrun_changes+="unset $name"$'\n'; done
}

by_nsenter() { # WORDS: Set mnrun_words to words that enter the container of Apptainer's WORDS
  # Return false where nsenter cannot do that, or where WORDS have an option of the user's.
  local pid start
  shift 3 # apptainer -q exec
  [[ $1 != --no-home ]] || shift
  [[ $1 == --pwd && $3 == instance://* ]] && hash nsenter setpriv 2>/dev/null || return 1
  read -r pid start <held && outer "$pid" "$start" && other_namespaces "$pid" &&
    [[ " ${mnrun_flags[*]} " == *' -U '* ]] || return 1
  changes "$pid" && ((${#mnrun_changes} < 131000)) || return 1 # execve(2), MAX_ARG_STRLEN
  export mnrun_from=$2 mnrun_changes # into.sh and rank.sh read these
  # The fourth word is sh.
  mnrun_words=(setpriv --no-new-privs nsenter --preserve-credentials -t "$pid" "${mnrun_flags[@]}" -- /bin/sh "${@:5}")
}

until [[ -s held ]]; do sleep 0.02; done # the guard ends this process where the container cannot come
read -r mnrun_pid mnrun_parent <holder
if [[ $mnrun_runtime == charliecloud ]] || ! by_nsenter "$@"; then
  mnrun_words=()
  for mnrun_word; do
    case $mnrun_word in
      --join-pid=MNRUN_HOLDER) mnrun_word=--join-pid=$mnrun_pid ;;
      instance://sharens_instance_MNRUN_HOLDER)
        if [[ -z $mnrun_parent ]]; then
          echo "fail another user has made the name in /dev/shm that this container needs: use --container-per rank" 1<>up
          exit 125
        fi
        mnrun_word=instance://sharens_instance_$mnrun_parent
        # Apptainer has written the name once this file is not empty.
        until [[ -s /dev/shm/sharens_instance_$mnrun_parent ]]; do sleep 0.02; done ;;
    esac
    mnrun_words+=("$mnrun_word")
  done
fi
set -- "${mnrun_words[@]}"

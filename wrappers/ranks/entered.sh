#!/bin/sh
# enter.sh has into.sh run `entered.sh FILE USER [WORDS…]` in the container. FILE holds an environment, and goes at
# once. USER is 1 if FILE is the environment of the node's container and not of a rank. Then the user's variables come
# from user.env.
# It becomes WORDS in the job's working directory, or a shell.
# shellcheck disable=SC1090  # enter.sh writes that file
. ./job.sh
mnrun_user=$2
. "./$1" # nothing but exports of variables
: >"$1"
rm -f "$1" 2>/dev/null # an image may lack rm
shift 2
if [ -n "$mnrun_user" ]; then . ./user.env; fi
umask "$mnrun_umask"
cd "$mnrun_chdir" || exit 125
if [ $# = 0 ]; then
  unset PROMPT_COMMAND ENV # Apptainer sets these, and they would change the prompt
  if command -v bash >/dev/null; then set -- bash --norc; else
    set -- sh
    [ ! -t 0 ] || PS1="${PS1%:*}:\$PWD \$ " # sh knows no \w
  fi
fi
# At its end, dash gives the terminal back to the process group that had it. It fails with 2 if that group is outside of
# its pid namespace, where its number is 0. So it has no job control there.
case $#:$1 in 1:sh | 1:dash | 1:*/sh | 1:*/dash)
  read -r _ _ _ _ mnrun_leader _ </proc/self/stat || mnrun_leader=''
  if [ -t 0 ] && [ "$mnrun_leader" = 0 ] && [ -z "${BASH_VERSION-}" ]; then set -- "$1" +m; fi ;;
esac
if ! command -v "$1" >/dev/null; then
  case $mnrun_runtime in host) read -r mnrun_place <"$mnrun_here/self" ;; *) mnrun_place='the image' ;; esac
  echo "mnrun: $mnrun_place has no $1: install it there, or name its path" >&2
  exit 127
fi
exec "$@"

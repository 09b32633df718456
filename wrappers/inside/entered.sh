#!/bin/sh
# enter.sh has into.sh run `entered.sh FILE USER [WORDS…]` in the container. FILE holds an environment, and goes at once.
# USER is 1 if FILE is the environment of the node's container and not of a rank. Then the user's variables come from
# user.env.
# It becomes WORDS in the job's working directory, or a shell.
# shellcheck disable=SC2154  # into.sh and job.sh
. ./job.sh
mnrun_environment=$(cat "$1" && rm -f "$1") || exit 125
mnrun_user=$2
shift 2
eval "$mnrun_environment"
unset mnrun_environment
if [ -n "$mnrun_user" ]; then . ./user.env; fi
umask "$mnrun_umask"
cd "$mnrun_chdir" || exit 125
if [ $# = 0 ]; then
  unset PROMPT_COMMAND ENV # Apptainer sets these, and they would change the prompt
  if command -v bash >/dev/null; then set -- bash --norc; else set -- sh; fi
fi
if ! command -v "$1" >/dev/null; then
  case $mnrun_runtime in host) mnrun_place="$(cat "$mnrun_here/self")" ;; *) mnrun_place='the image' ;; esac
  echo "mnrun: $mnrun_place has no $1: install it there, or name its path" >&2
  exit 127
fi
exec "$@"

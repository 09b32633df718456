#!/bin/sh
# `shell.sh terminal|input` runs in the master container, and becomes bash or else sh.
# The shell reads no startup files of the user. They belong to the host, and may print or change PATH.
set -eu
mnrun_here=${0%/*}
. "$mnrun_here/job.sh"
mnrun_node=${mnrun_nodes%%,*}
unset PROMPT_COMMAND ENV # Apptainer sets these, and they would change the prompt
if command -v bash >/dev/null; then
  PS1="mnrun:$mnrun_node:\\w\\\$ "
  set -- "$1" bash --norc
else
  PS1="mnrun:$mnrun_node:\$PWD \$ "
  set -- "$1" sh
  read -r _ _ _ _ mnrun_leader _ </proc/self/stat || mnrun_leader=''
  if [ "$1:$mnrun_leader" = terminal:0 ]; then set -- "$1" sh +m; fi # as in entered.sh
fi
if [ "$1" = terminal ]; then export PS1; else unset PS1; fi
shift
exec "$@"

#!/bin/sh
# `shell.sh terminal|input` becomes the user's shell in the master container: bash where the image has
# it, else sh. It reads none of the user's own files: they are the host's, and may print or change PATH.
set -eu
mnrun_here=${0%/*}
. "$mnrun_here/job.sh"
mnrun_node=${mnrun_nodes%%,*}
unset PROMPT_COMMAND ENV # Apptainer's, which would set a prompt of its own
if command -v bash >/dev/null; then
  PS1="mnrun:$mnrun_node:\\w\\\$ "
  set -- "$1" bash --norc
else
  PS1="mnrun:$mnrun_node:\$PWD \$ "
  set -- "$1" sh
fi
if [ "$1" = terminal ]; then export PS1; else unset PS1; fi
shift
exec "$@"

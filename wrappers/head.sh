#!/bin/bash
# `head.sh WORDS…` runs WORDS on the job's first node, outside the container: mpirun itself, or
# the master container. Standard input does not go through mpirun (5.0.7 loses nearly all of
# more than 4 kB): a pipe takes it to rank 0, which runs on this node.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/job.sh"
if [[ $job_stdin == rank ]]; then
  # opened by a process that carries the job's mark: it waits here for as long as rank 0 does not
  # read, and so must not hold the step's own output
  sh -c 'exec cat >"$0"' "$here/stdin" <&0 >/dev/null 2>&1 &
  exec </dev/null
fi
# shellcheck disable=SC2016  # its own words
own=(sh -c 'echo $$ >"$0"; exec "$@"' "$here/pid.head" "$@") # whom the guard hands a signal to
if [[ -n $job_connect && $job_shell != terminal ]]; then own=(bash -p "$here/apart.sh" "${own[@]}"); fi
exec "${own[@]}"

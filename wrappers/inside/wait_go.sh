#!/bin/sh
# into.sh runs this in the master container, or on its node in outside-in mode, with WORDS of mpirun or of the user's
# script. It waits until every node is ready, and then runs WORDS in the environment of this launch.
set -eu
. ./job.sh
if [ -z "$mnrun_inside" ]; then . ./home.sh; fi # the host's Open MPI ends without HOME
if [ -n "$mnrun_joined" ]; then # this is the container of its node as well
  # shellcheck disable=SC2154  # into.sh's
  sh -c "$mnrun_into" "$mnrun_here" worker.sh <asks 8>&- 9>&- &
  exec >&8 2>&9 8>&- 9>&-
fi
trap '' TERM USR1 USR2 # these signals are for the program that starts here
read -r mnrun_word <go || exit 1 # the guard holds this pipe open. Its end is the end of the job
if [ "$mnrun_word" != go ]; then exit 0; fi # a node is not ready, and the launcher names it
trap - TERM USR1 USR2
for mnrun_it in $mnrun_warnings; do [ "$mnrun_it" = TERM ] || trap '' "$mnrun_it"; done # as in rank.sh
. ./launch.env
if [ -n "$mnrun_inside" ]; then
  for mnrun_it in $mnrun_submits; do
    if command -v "$mnrun_it" >/dev/null; then PATH=$mnrun_here/out:$PATH && break; fi
  done
fi
umask "$mnrun_umask"
if [ -z "$mnrun_inside" ] || [ "$mnrun_runtime" = host ]; then
  . ./search.sh
  mnrun_search
fi
if [ "$1" = mpirun ] && [ -z "$mnrun_inside" ]; then PATH=$mnrun_here/out:$PATH; fi
cd "$mnrun_begin"
if [ "$1" = mpirun ] && [ -n "$mnrun_inside" ] && [ ! -x "$mnrun_here/bin/mpirun" ]; then
  # The program is on PATH, but its directory is mounted noexec.
  shift
  set -- sh "$mnrun_here/bin/mpirun" "$@"
fi
. "$mnrun_here/program.sh"
mnrun_try "$1"
if [ -n "$mnrun_why" ]; then
  echo "$mnrun_why" >&2
  exit "$mnrun_code"
fi
if [ "$1" = mpirun ] && [ -z "$mnrun_inside" ] && [ "${PRTE_MCA_prte_keep_fqdn_hostnames-}" = 1 ]; then
  mnrun_bin=$(readlink -f "$(command -v mpirun)")
  . "$mnrun_here/alike.sh"
  shift
  mnrun_alike "${mnrun_bin%/*}" "$@"
  if [ -n "$mnrun_hosts" ]; then set -- --host "$mnrun_hosts" "$@"; fi
  set -- mpirun "$@"
fi
exec "$@"

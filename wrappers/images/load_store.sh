#!/bin/bash
# shellcheck disable=SC2034,SC2154  # engines.sh reads and sets these
# running/hosts.py runs this on a host without a scheduler, before any process of the job.
# needs: say.sh engines.sh()
# It gives an image of one store of Docker or Podman to the store of this host. Its words are
#     load_store.sh REFERENCE STORE JOB RUNTIME CONTENT look SUM   says whether it is here, by the SUM of its CONTENT
#     load_store.sh REFERENCE STORE JOB RUNTIME CONTENT take SUM   the same. It comes on standard input, as from `save`
# CONTENT is the template of pull_store.sh.
set -euo pipefail +o posix
reference=$1 mnrun_podman=$2 mnrun_id=$3 mnrun_runtime=$4 content=$5 what=$6 wanted=$7
engines
there() { [[ $(ask 60 image inspect --format "$content" "$reference" 2>/dev/null | sha256sum) == "$wanted "* ]]; }

why=$(usable) || fail "$why"
if [[ $what == take ]]; then
  why=$(MNRUN_JOB_ID=$mnrun_id "${mnrun_engine[@]}" load 2>&1 >/dev/null) ||
    fail "cannot load $reference into $mnrun_runtime's store: ${why##*$'\n'}"
  there || fail "the image that came is not the one that $mnrun_runtime has saved"
elif there; then
  say image "$wanted" "$reference"
else
  say lacks -
fi

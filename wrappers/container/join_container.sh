#!/bin/bash
# `join_container.sh WORDS…` runs WORDS, a container runtime's, once the container that this node's ranks share is there:
# where they say MNRUN_HOLDER they mean that.
set -euo pipefail
mnrun_here=$(cd "${0%/*}" && pwd)
until [[ -e $mnrun_here/held ]]; do sleep 0.02; done # or until the guard ends us, since it cannot come
read -r mnrun_pid mnrun_parent <"$mnrun_here/holder"
mnrun_words=()
for mnrun_word; do
  case $mnrun_word in
    --join-pid=MNRUN_HOLDER) mnrun_word=--join-pid=$mnrun_pid ;;
    instance://sharens_instance_MNRUN_HOLDER)
      mnrun_word=instance://sharens_instance_$mnrun_parent
      until [[ -s /dev/shm/sharens_instance_$mnrun_parent ]]; do sleep 0.02; done ;; # Apptainer has written down its name
  esac
  mnrun_words+=("$mnrun_word")
done
exec "${mnrun_words[@]}"

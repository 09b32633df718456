#!/bin/bash
# The launcher runs `host_facts.sh [IMAGE]` on a host without a scheduler. It prints the host's facts
# (schedulers/hosts/facts.py).
set -u
fact cpus "$(nproc)"
fact home "$HOME"
if command -v nvidia-smi >/dev/null; then
  gpus=$(nvidia-smi -L 2>/dev/null | grep '^GPU ')
  fact gpus "$(grep -c . <<<"$gpus")"
  # The job would share the GPUs with these processes.
  nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv,noheader 2>/dev/null | while IFS=', ' read -r uuid pid name; do
    number=$(sed -n "s/^GPU \([0-9]*\):.*$uuid.*/\1/p" <<<"$gpus")
    [[ -z $pid ]] || fact busy "GPU ${number:-$uuid} ($name, process $pid)"
  done
fi
image=${1-}
if [[ -d $image ]]; then
  fact image directory
elif [[ -f $image && -r $image ]]; then # a pipe would wait for a writer
  # A file on a shared filesystem has the same values on every host. A copy of it has others.
  fact image "$(stat -L -c '%i.%s.%.Y.%.Z' -- "$image")"
  fact size "$(stat -L -c %s -- "$image")"
fi
exit 0

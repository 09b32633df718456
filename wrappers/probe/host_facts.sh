#!/bin/bash
# What a host without a scheduler has: `host_facts.sh [IMAGE]` says it in lines `NAME VALUE`.
set -u
echo "cpus $(nproc)"
echo "home $HOME"
if command -v nvidia-smi >/dev/null; then
  gpus=$(nvidia-smi -L 2>/dev/null | grep '^GPU ')
  echo "gpus $(grep -c . <<<"$gpus")"
  # with whom this job would have to share
  nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv,noheader 2>/dev/null | while IFS=', ' read -r uuid pid name; do
    number=$(sed -n "s/^GPU \([0-9]*\):.*$uuid.*/\1/p" <<<"$gpus")
    [[ -z $pid ]] || echo "busy GPU ${number:-$uuid} ($name, process $pid)"
  done
fi
image=${1-}
if [[ -d $image ]]; then
  echo 'image directory'
elif [[ -r $image ]]; then
  # of one file on a filesystem that all share these are the same everywhere; of a copy they are not
  echo "image $(stat -L -c '%i.%s.%.Y.%.Z' -- "$image")"
  echo "size $(stat -L -c %s -- "$image")"
fi
exit 0

#!/bin/bash
# The launcher runs `host_facts.sh [IMAGE]` on a host without a scheduler. It prints the host's facts
# (schedulers/hosts/steps.py).
# needs: facts.sh
set -u
fact cpus "$(nproc)"
fact home "$HOME"
fact folder "$PWD"
if command -v nvidia-smi >/dev/null; then fact gpus "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')"; fi
image=${1-}
if [[ -d $image ]]; then
  fact image directory
elif [[ -f $image && -r $image ]]; then # a pipe would wait for a writer
  # A file on a shared filesystem has the same values on every host. A copy of it has others.
  fact image "$(stat -L -c '%i.%s.%.Y.%.Z' -- "$image")"
  fact size "$(stat -L -c %s -- "$image")"
fi
exit 0

#!/bin/bash
# A Slurm epilog (Epilog= in slurm.conf, as root on each node of a job that ended): removes what a job has left
# in docker and podman. mnrun does so itself, also when it is killed; this is for the node whose dockerd hung
# meanwhile, and for containers that users label themselves: docker run --label mnrun.job=$SLURM_JOB_ID …
set -u

remove() { # ENGINE WORDS: its containers whose label is this job's: ID, or ID-… as mnrun writes it
  timeout 20 "$@" ps --all --format '{{.ID}} {{.Label "mnrun.job"}}' 2>/dev/null |
    while read -r id label; do
      if [[ ${label%%-*} == "$SLURM_JOB_ID" ]]; then timeout 30 "$@" rm --force "$id" >/dev/null; fi
    done
}

if command -v docker >/dev/null; then remove docker; fi
store=/tmp/mnrun-podman.$SLURM_JOB_UID # mnrun's --podman-root
if [[ -d $store/root ]] && command -v podman >/dev/null; then
  remove setpriv --reuid "$SLURM_JOB_UID" --regid "$SLURM_JOB_GID" --init-groups \
    env -C / HOME=/ XDG_RUNTIME_DIR="$store/user" podman --root "$store/root" --runroot "$store/run" --tmpdir "$store/tmp" \
    --cgroup-manager=cgroupfs
fi
exit 0 # whatever happened: another code takes the node out of service

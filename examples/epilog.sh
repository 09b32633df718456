#!/bin/bash
# A Slurm epilog (Epilog= in slurm.conf, as root on each node of a job that ended): removes what a job has left
# in docker and in /tmp. mnrun does so itself, also when it is killed; this is for the node whose dockerd hung
# meanwhile, and for containers that users label themselves: docker run --label mnrun.job=$SLURM_JOB_ID …
set -u

if command -v docker >/dev/null; then
  timeout 20 docker ps --all --format '{{.ID}} {{.Label "mnrun.job"}}' 2>/dev/null | while read -r id label; do
    # the job's id, or ID-… as mnrun writes it
    if [[ ${label%%-*} == "$SLURM_JOB_ID" ]]; then timeout 30 docker rm --force "$id" >/dev/null; fi
  done
fi
rm -rf "/tmp/mnrun.$SLURM_JOB_ID-"* # with podman's containers, whose processes are the job's own
exit 0 # whatever happened: another code takes the node out of service

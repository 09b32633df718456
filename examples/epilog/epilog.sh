#!/bin/bash
# A Slurm epilog (Epilog= in slurm.conf, as root on each node of a job that ended): removes what a job has left
# in docker, in /tmp and in /dev/shm. mnrun does so itself; this is for a job whose every process Slurm has killed at
# once (out of memory, `scancel -s KILL`), for the node whose dockerd hung meanwhile, and for containers that users
# label themselves: docker run --label mnrun.job=$SLURM_JOB_ID …
set -u
PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd /

if command -v docker >/dev/null; then
  timeout 20 docker ps --all --format '{{.ID}} {{.Label "mnrun.job"}}' 2>/dev/null | while read -r id label; do
    # the job's id, or ID-… as mnrun writes it
    if [[ ${label%%-*} == "$SLURM_JOB_ID" ]]; then timeout 30 docker rm --force --volumes "$id" >/dev/null; fi
  done
fi
# Everybody may make such names: only directories of the job's own user are taken away, and links are not followed.
# Podman's containers lie there, too; their processes are the job's own. A file system that a user has mounted there
# stays, since it may not answer.
find /tmp /dev/shm -mindepth 1 -maxdepth 1 -name "mnrun.$SLURM_JOB_ID-*" -user "$SLURM_JOB_UID" -type d -exec timeout 120 rm -rf --one-file-system {} +
exit 0 # whatever happened: another code takes the node out of service

#!/bin/bash
# The guard runs this on the node. It writes etc.passwd and etc.group for the containers of the job.
# They hold root, nobody and the user. The user's shell is /bin/sh for two reasons.
# sshd refuses a user whose shell the image lacks (OpenSSH, auth.c).
# A bash that sshd starts reads ~/.bashrc, which may print or change PATH (bash, SSH_SOURCE_BASHRC).
set -euo pipefail
name=$(id -un 2>/dev/null) || name=user
{
  echo 'root:x:0:0:root:/root:/bin/sh'
  echo 'nobody:x:65534:65534:nobody:/nonexistent:/bin/false'
  echo "$name:x:$(id -u):$(id -g):$name:$HOME:/bin/sh"
} >etc.passwd
{
  echo 'root:x:0:'
  for gid in $(id -G); do
    group=$(getent group "$gid") || group=
    group=${group%%:*}
    echo "${group:-group$gid}:x:$gid:$name"
  done
  echo 'nogroup:x:65534:'
} >etc.group

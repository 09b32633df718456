#!/bin/bash
# passwd and group for the containers of the job: root, nobody and the user, whose shell is
# /bin/sh. sshd refuses a user whose shell the image lacks, and bash started by sshd reads
# ~/.bashrc, which may print or change PATH. (mechanics of sshd: auth.c, bash's SSH_SOURCE_BASHRC)
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

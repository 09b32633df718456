# shellcheck shell=bash
# The guard sources this file on the node, after names.sh.

users() { # Write etc.passwd and etc.group for the containers of the job
  # They hold root, nobody and the user. The user's shell is /bin/sh for two reasons.
  # sshd refuses a user whose shell the image lacks (OpenSSH, auth.c).
  # A bash that sshd starts reads ~/.bashrc, which may print or change PATH (bash, SSH_SOURCE_BASHRC).
  local group gid
  local -A names=()
  user_name
  printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'nobody:x:65534:65534:nobody:/nonexistent:/bin/false' \
    "$REPLY:x:$EUID:${GROUPS[0]}:$REPLY:$HOME:/bin/sh" >etc.passwd
  while IFS=: read -r group _ gid _; do names[$gid]=$group; done < <(getent group "${GROUPS[@]}")
  {
    echo 'root:x:0:'
    for gid in "${GROUPS[@]}"; do echo "${names[$gid]:-group$gid}:x:$gid:$REPLY"; done
    echo 'nogroup:x:65534:'
  } >etc.group
}

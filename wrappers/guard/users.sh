# shellcheck shell=bash
# The guard sources this file on the node, after names.sh.

note_groups() { # Put the names of the user's groups into the caller's `names`, from lines of group(5)
  local group gid
  while ((${#names[@]} < ${#GROUPS[@]})) && IFS=: read -r group _ gid _; do
    [[ " ${GROUPS[*]} " != *" $gid "* ]] || names[$gid]=${names[$gid]:-$group}
  done
}

users() { # Write etc.passwd and etc.group for the containers of the job
  # They hold root, nobody and the user. The user's shell is /bin/sh for two reasons.
  # sshd refuses a user whose shell the image lacks (OpenSSH, auth.c).
  # A bash that sshd starts reads ~/.bashrc, which may print or change PATH (bash, SSH_SOURCE_BASHRC).
  local gid
  local -A names=()
  user_name
  printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'nobody:x:65534:65534:nobody:/nonexistent:/bin/false' \
    "$REPLY:x:$EUID:${GROUPS[0]}:$REPLY:$HOME:/bin/sh" >etc.passwd
  { note_groups </etc/group; } 2>/dev/null || true # most groups are here, and `getent` costs a process
  for gid in "${GROUPS[@]}"; do
    [[ -n ${names[$gid]-} ]] || { note_groups < <(getent group "${GROUPS[@]}"); break; }
  done
  {
    echo 'root:x:0:'
    for gid in "${GROUPS[@]}"; do echo "${names[$gid]:-group$gid}:x:$gid:$REPLY"; done
    echo 'nogroup:x:65534:'
  } >etc.group
}

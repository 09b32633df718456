# shellcheck shell=bash
# Scripts on the node that trust a directory have these functions (nodes/kit.py). launcher/mnrun/system/paths.py judges
# the directories of this machine in the same way.

own_group() { # GID PATH: Test whether nobody but the user has the rights that PATH gives to this group
  # Many systems give each user a group of the same name (login.defs(5), USERGROUPS_ENAB). In the mode of a file with an
  # access list, the bits of the group stand for other users, too (acl(5)). ls shows such a list by a +.
  local user primary group members mode
  IFS=: read -r user _ _ primary _ < <(getent passwd "$EUID") && IFS=: read -r group _ _ members < <(getent group "$1") &&
    [[ $primary == "$1" && $group == "$user" && -z ${members/#"$user"/} ]] &&
    read -r mode _ < <(ls -ld -- "$2") && [[ $mode != *+ ]]
}

others_write() { # MODE GID PATH: Test whether another user may write to PATH, which has this mode and this group
  if ((8#$1 & 8#002)); then return 0; fi
  ((8#$1 & 8#020)) && ! own_group "$2" "$3"
}

exposed() { # PATH: Test whether another user could put another directory in the place of one above PATH. REPLY names where
  # A process that may write to a directory can rename its entries, except under the sticky bit (rename(2), EPERM).
  # The directories are those in which the kernel looks up a part of the name, or of a link. PATH need not be there yet.
  local mode gid part place='' above=() links=40 rest=$1 # links as in path_resolution(7)
  [[ $rest == /* ]] || rest=$PWD/$rest
  while [[ $rest ]]; do
    part=${rest%%/*} rest=${rest#"$part"} rest=${rest#/}
    case $part in
      '' | .) continue ;;
      ..) place=${place%/*} && continue ;;
    esac
    above+=("${place:-/}")
    if [[ -L $place/$part ]] && ((links-- > 0)); then
      rest=$(readlink -- "$place/$part")/$rest
      [[ $rest != /* ]] || place=''
    else
      place+=/$part
    fi
  done
  while read -r mode gid REPLY; do
    ((8#$mode & 8#1000)) || ! others_write "$mode" "$gid" "$REPLY" || return 0
  done < <(stat -Lc '%a %g %n' -- "${above[@]}" 2>/dev/null)
  return 1
}

foreign() { # PATH: Test whether another user may have chosen what the directory PATH holds. REPLY says why
  local mode gid
  REPLY="$1 does not belong to you"
  [[ -O $1 && -d $1 ]] || return 0
  read -r mode gid < <(stat -Lc '%a %g' -- "$1") || return 0
  REPLY="other users may write to $1 (chmod go-w)"
  if others_write "$mode" "$gid" "$1"; then return 0; fi
  exposed "$1" || return 1
  REPLY="other users may write to $REPLY, which contains $1"
}

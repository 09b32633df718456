# shellcheck shell=bash
# The scripts of PREPARE that trust a directory have this in front of them (nodes/kit.py).

exposed() { # PATH: Test whether any user could put another directory in the place of one above PATH. REPLY names where
  # A process that may write to a directory can rename its entries, except under the sticky bit (rename(2), EPERM).
  local mode place=$1 above=()
  while [[ $place == */* && ${place%/*} ]]; do place=${place%/*} above+=("$place"); done
  ((${#above[@]})) || return 1
  while read -r mode REPLY; do
    ((8#$mode & 8#1000 || !(8#$mode & 8#002))) || return 0
  done < <(stat -Lc '%a %n' -- "${above[@]}")
  return 1
}


#!/bin/bash
# The launcher starts this on a host without a scheduler, for an image in that host's own cache (running/hosts.py).
# `store_image.sh look PATH SHA256 ORIGINAL` says `have` or `want` on standard output.
# exposed.sh stands in front of it.
# `store_image.sh take PATH SHA256` reads the image from standard input. PATH is in a directory of the user alone.
set -euo pipefail
what=$1 path=$2 sum=$3 original=${4-}
folder=${path%/*}
is_it() { # FILE: Test whether FILE has the wanted checksum
  [[ -f $1 && -r $1 ]] && sha256sum <"$1" | grep -q "^$sum "
}

mine() { # DIRECTORY: Make DIRECTORY, or refuse one that another user can change
  [[ -e $1 || -L $1 ]] || mkdir -m 700 -- "$1"
  if [[ -L $1 || ! -d $1 || ! -O $1 || $(stat -c %a -- "$1") != ?(2)700 ]]; then # below a setgid directory, it is one
    echo "$1 is not your directory with mode 0700: remove it" >&2
    exit 1
  fi
}

umask 077
! exposed "${folder%/*}" || { echo "other users may write to $REPLY: name another directory with --stage-dir" >&2; exit 1; }
mine "${folder%/*}"
mine "$folder"
case $what in
  look)
    if [[ -f $path && ! -L $path ]]; then # a file gets this name only after its checksum was right
      echo have
    elif is_it "$original"; then
      ln -sfn -- "$original" "$path"
      echo have
    else
      echo want
    fi
    ;;
  take)
    part=$path.$$
    trap 'rm -f -- "$part"' EXIT
    why=$(cat 2>&1 >"$part") || {
      echo "$folder: ${why##*: }; name another directory with --stage-dir" >&2
      exit 1
    }
    is_it "$part" || { echo "the copy differs from the original" >&2; exit 1; }
    mv -f -- "$part" "$path"
    ;;
esac

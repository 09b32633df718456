#!/bin/bash
# An image in this host's own cache: `store_image.sh look PATH SHA256 ORIGINAL` says `have` or `want`;
# `store_image.sh take PATH SHA256` reads it from standard input. PATH is in a directory of the user's alone.
set -euo pipefail
what=$1 path=$2 sum=$3 original=${4-}
folder=${path%/*}
is_it() { # FILE
  [[ -r $1 ]] && sha256sum <"$1" | grep -q "^$sum "
}

mine() { # DIRECTORY: in which nobody else can change anything
  [[ -e $1 || -L $1 ]] || mkdir -m 700 -- "$1"
  if [[ -L $1 || ! -d $1 || ! -O $1 || $(stat -c %a -- "$1") != 700 ]]; then
    echo "$1 is not a directory of yours alone (0700): have it taken away" >&2
    exit 1
  fi
}

umask 077
mine "${folder%/*}"
mine "$folder"
case $what in
  look)
    if [[ -f $path && ! -L $path ]]; then # it came here whole: renamed after its sum was right
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
    cat >"$part"
    is_it "$part" || { echo "the copy is not what was sent" >&2; exit 1; }
    mv -f -- "$part" "$path"
    ;;
esac

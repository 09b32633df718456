# shellcheck shell=bash disable=SC2034,SC2154
# Functions of pull_image.sh for a reference that becomes a file in CACHE (KIND file).
# PROGRAM converts the image once for each digest, for all nodes that share the directory. images/cache.py lists the
# files of CACHE.

STALE=30 # seconds: the holder of a lock whose counter stands still for longer counts as dead

name_it() { # Set the names of the reference's files in the cache
  local name=${reference//[^A-Za-z0-9._-]/_}
  ref=$cache/refs/${name:0:120}-$(printf '%s\n' "$reference" | cksum | cut -d' ' -f1)
  lock=$ref.lock layers=$ref.layers ending=sif
  [[ ${program[0]} != ch-run ]] || ending=sqfs
}

mine() { # Exit with an error unless the cache belongs to the user alone
  [[ -e $cache || -L $cache ]] || return 0
  ! foreign "$cache" || fail "$REPLY: name another with --image-cache"
}

known() { # Test whether the reference has been converted, and its file exists
  if [[ $reference == *@sha256:* ]]; then # a digest means the same image under any name
    digest=${reference##*@} key=- by=''
    [[ ! -e $ref ]] || read -r _ key by _ <"$ref" || return 1
    [[ ! -s $cache/${digest/:/-}.$ending ]] || return 0
  fi
  [[ -e $ref ]] || return 1
  read -r digest key by _ <"$ref" || return 1
  [[ -s $cache/${digest/:/-}.$ending ]]
}

will_do() { # Test whether the file in the cache is usable. With --pull always, this job has asked the registry for it
  known && [[ $policy != always || $by == "$job" ]] && [[ $policy == never || ! -e $cache/sums/${digest/:/-}.$ending.doubt ]]
}

sound() { # FILE: Test whether an image is what was converted. REPLY is it then
  local wanted sum
  [[ -s $1 ]] && { read -r wanted _ <"$cache/sums/${1##*/}"; } 2>/dev/null || return 1
  run sums "$1" && read -r sum _ <"$lock/sum" && [[ $sum == "$wanted" ]] && REPLY=$1
}

ours() { [[ $(cat "$lock/owner" 2>/dev/null) == "$owner" ]]; } # Test whether this process holds the lock

claim() ( # Make the lock with its owner in it, or write the reason to the log
  # No signal ends this in between. Other nodes take a lock without an owner for held, and wait STALE seconds.
  trap '' TERM INT HUP
  LC_ALL=C mkdir "$lock" 2>"$spare/log" || exit
  echo "$owner" 2>"$spare/log" >"$lock/owner" || { rm -rf -- "$lock"; exit 1; }
)

take() { # Wait for a holder that lives, and take the lock. Return false where another node has converted the image
  local beat now seen=$SECONDS told='' holder said
  mkdir -p "$cache/refs" 2>"$spare/log" || fail "cannot make $cache: $(last_line); name another with --image-cache"
  mine
  beat=''
  until claim; do
    [[ -d $lock ]] || { said=$(last_line) && [[ $said == *"File exists"* ]]; } ||
    fail "cannot write to $cache: ${said##*: }; name another with --image-cache"
    holder=$(cat "$lock/owner" 2>/dev/null) || holder=
    now=$holder/$(cat "$lock/beat" 2>/dev/null) || true
    if [[ $now != "$beat" ]]; then
      beat=$now seen=$SECONDS
    elif ((SECONDS - seen > STALE)) || { [[ $holder == "$node "* ]] && [[ ! -e /proc/${holder#* } ]]; }; then
      # Several nodes may find the lock stale. mkdir lets one of them claim it. That one removes the lock if it is still
      # the same.
      if ! mkdir "$lock/claim" 2>/dev/null; then
        find "$lock/claim" -maxdepth 0 -mmin +1 -delete 2>/dev/null || true # its maker has died
        nap 0.3
      elif [[ $(cat "$lock/owner" 2>/dev/null) == "$holder" ]]; then
        mv "$lock" "$lock.${owner// /.}.gone" && rm -rf "$lock.${owner// /.}.gone"
      else
        rmdir "$lock/claim" 2>/dev/null || true
      fi
      seen=$SECONDS
      continue
    fi
    if [[ -z $told ]]; then
      told=1
      say pulling "waits for ${holder%% *}, which converts it"
    fi
    nap 0.3
    ! will_do || return 1
  done
  ! will_do
}

whole() { # Remove layers that differ from their digest. A node that lost its power may have left one
  local file sum
  echo "checks the layers of a pull that was cut off"
  for file in "$layers"/*; do
    read -r sum _ < <(sha256sum <"$file") && [[ $sum == "${file##*/}" ]] || rm -rf -- "$file"
  done
}

unfinished() { # Keep the complete layers for the next pull, except on a full disk. Report why this one failed
  if [[ $(why) == "no space"* ]]; then rm -rf "$layers"; else rmdir "$layers" 2>/dev/null || true; fi
  unpulled
}

sums() { # FILE: Write the digest of a file, which may be large
  echo "reads the image"
  sha256sum <"$1" >"$lock/sum"
}

by_apptainer() { # Convert the image to $lock/new.sif, and set its digest and Apptainer's key for it
  local before='' old='' found file
  # Apptainer gives a layer its name once it is complete. It transfers none whose name and size are there.
  mkdir -p "$lock/cache/cache/"{oci-tmp,blob/blobs}
  ln -s "$layers" "$lock/cache/cache/blob/blobs/sha256"
  [[ ! -d $layers ]] || run whole
  mkdir -p "$layers"
  # Apptainer names a converted image in its cache by its own key. If that file exists, Apptainer only asks the registry
  # and converts nothing.
  if known; then
    before=$digest
    if [[ $key != - ]]; then # Apptainer had a cache then
      old=$key
      ln "$cache/${digest/:/-}.$ending" "$lock/cache/cache/oci-tmp/$key" 2>/dev/null || true
    fi
  fi
  export APPTAINER_CACHEDIR=$lock/cache APPTAINER_TMPDIR=$spare \
    SINGULARITY_CACHEDIR=$lock/cache SINGULARITY_TMPDIR=$spare
  growing=("$layers")
  run "${program[@]}" pull --force "$lock/new.$ending" "$reference" || {
    # Another node may have judged this one dead and removed its files. The caller then tries again.
    ours || return 1
    unfinished
  }
  found=$(sed -n 's/.*"digest": *"\(sha256:[0-9a-f]*\)".*/\1/p' "$lock/cache/cache/blob/index.json" 2>/dev/null | tail -n 1) || found=
  key=${old:--}
  for file in "$lock"/cache/cache/{oci-tmp,oras,library}/*; do
    [[ ! -f $file || ${file##*/} == "$old" ]] || key=${file##*/} # a tag that has moved has another key
  done
  if [[ -z $found && -n $old && $key == "$old" ]]; then
    found=$before # the registry still has the same image
  elif [[ -z $found ]]; then
    # oras and library have the image as one file, and no index.
    { run sums "$lock/new.$ending" && read -r found _ <"$lock/sum"; } || unpulled
    found=sha256:$found
  fi
  digest=$found
}

by_charliecloud() { # Pull the image, pack it to $lock/new.sqfs, and set its digest: that of its manifest
  local sum
  export CH_IMAGE_STORAGE=$lock/cache
  growing=("$lock/cache/dlcache")
  run squash || {
    ours || return 1
    unpulled
  }
  read -r sum _ < <(cat "$lock"/cache/dlcache/*.manifest.json | sha256sum)
  digest=sha256:$sum key=-
}

squash() { # Pull the image to a directory, and make a file of that
  local auth=()
  [[ -z ${CH_IMAGE_USERNAME-} ]] || auth=(--auth)
  ch-image "${auth[@]}" pull "$reference" && ch-convert -i ch-image -o squash "$reference" "$lock/new.sqfs"
}

convert() { # Convert the image into the cache, unless it is there undamaged. Record the reference
  local file good='' REPLY=''
  if known; then
    file=$cache/${digest/:/-}.$ending
    if sound "$file"; then good=$REPLY; else rm -f -- "$file"; fi
    rm -f -- "$cache/sums/${file##*/}.doubt"
  fi
  if [[ -z $good || ($policy == always && $reference != *@sha256:*) ]]; then # a digest has nothing newer
    case $ending in
      sif) by_apptainer ;;
      sqfs) by_charliecloud ;;
    esac || return 1
    file=$cache/${digest/:/-}.$ending
    if [[ $good != "$file" ]] && ! sound "$file"; then
      { run sums "$lock/new.$ending" && mkdir -p "$cache/sums"; } || unpulled
      ours || return 1
      mv "$lock/sum" "$cache/sums/${file##*/}"
      mv "$lock/new.$ending" "$file"
    fi
  fi
  ours || return 1
  echo "$digest $key $job $reference" >"$lock/ref"
  mv "$lock/ref" "$ref"
  rm -rf "$layers"
}

in_cache() { # Bring the image into the cache, and report its file
  local file=''
  if [[ $ending == sif ]]; then
    login="\`apptainer registry login\`, \`docker login\`, or APPTAINER_DOCKER_USERNAME and _PASSWORD"
    offline="pull it where that works, with \`${program[0]} pull app.sif $reference\`, and write --image app.sif"
  else
    login="CH_IMAGE_USERNAME and CH_IMAGE_PASSWORD"
    offline="pull it where that works, with \`ch-image\` and \`ch-convert\`, and write --image app.sqfs"
  fi
  room="of $cache, or of $spare (APPTAINER_TMPDIR), whose disk is full"
  mine
  until [[ -n $file && -s $file ]]; do # `mnrun clean` may just have removed the file
    if ! will_do; then
      [[ $policy != never ]] ||
        fail "$reference is not in $cache, and --pull never forbids to pull it: use --pull missing"
      until take && convert; do
        if will_do; then break; fi
      done
    fi
    file=$cache/${digest/:/-}.$ending
    touch -c "$file" 2>/dev/null || true # `mnrun clean` leaves recently used files alone
  done
  say image "$digest" "$file"
}

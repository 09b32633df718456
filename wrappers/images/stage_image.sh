#!/bin/bash
# shellcheck disable=SC2154  # the words in front of it set mnrun_*
# fetch.sh runs this on a node for PREPARE, before any process of the job.
# needs: say.sh exposed.sh
# It finds the copy of an image file on this node, or makes room for one. Its words are
#     stage_image.sh LIMIT JOB
#     stage_image.sh LIMIT JOB look FILE   on a host without a scheduler. It takes FILE if that is the same image
#     stage_image.sh LIMIT JOB take        the same. The image comes on standard input
# mnrun_copy is the path of the copy, DIRECTORY/mnrun.USER/images/sha256-DIGEST.sif, and mnrun_size its size in bytes.
# A file gets such a name after its digest was right. Its time is the last use by a job.
# The rest of standard input is a lease. Its word `take` says that the file JOB.part is there, and `copy SIZE` that the
# image follows. At the end of the lease
# that file is removed. Where mnrun_silence is set, the lease ends if it is silent for as many seconds.
set -euo pipefail +o posix
umask 077
limit=$1 part=$2.part what=${3-} file=${4-}
folder=${mnrun_copy%/*} name=${mnrun_copy##*/}
digest=${name#sha256-}
digest=${digest%.sif}
top=${folder%/*} base=${folder%/*/*}
YOUNG=3600 OLD=$((30 * 86400)) # seconds since the last use: an image stays for the first, and goes after the second

have() { # Test whether the copy is there. Its directories are made, or refused
  local place found mine="^4[15]c0 $EUID "
  [[ -d $base ]] || fail "there is no directory $base: name another with --stage-dir"
  ! exposed "$top" || fail "other users may write to $REPLY, which is to contain $top: name another with --stage-dir"
  for place in "$top" "$folder"; do
    [[ -d $place ]] || mkdir -m 700 -- "$place" 2>/dev/null || [[ -d $place ]] ||
      fail "cannot make $place: name another directory with --stage-dir"
  done
  # In its first digits %f has the type: 4 is a directory, and 8 a file. Nobody can put another in the place of such a
  # directory. stat follows no link here.
  mapfile -t found < <(stat -c '%f %u %s' -- "$top" "$folder" "$mnrun_copy" 2>/dev/null)
  [[ ${found[0]-} =~ $mine && ${found[1]-} =~ $mine ]] ||
    fail "$folder is not a directory of yours with mode 0700: remove it, or name another with --stage-dir"
  cd -- "$folder"
  [[ ${found[2]-} == 8???" $EUID $mnrun_size" ]]
}

room() { # Make room for the image, or fail
  # The images that were used longest ago go first. Younger ones stay, since their containers may not have begun. Open
  # ones stay, since a program may add ranks, whose containers open the image by its name.
  local now free blocks unit most files line used size file total=$mnrun_size opened=''
  printf -v now '%(%s)T' -1
  read -r free blocks unit < <(stat -f -c '%a %b %S' .)
  free=$((free * unit))
  case $limit in
    *%) most=$((blocks * unit * ${limit%?} / 100)) ;;
    *M) most=$((${limit%?} << 20)) ;;
    *G) most=$((${limit%?} << 30)) ;;
    *) most=$((${limit%?} << 40)) ;;
  esac
  mapfile -t files < <(find . -type f -printf '%T@ %s %f\n' | sort -n)
  for line in "${files[@]}"; do
    read -r _ size _ <<<"$line"
    total=$((total + size))
  done
  for line in "${files[@]}"; do
    read -r used size file <<<"$line"
    ((now - ${used%.*} > YOUNG)) || break
    [[ $file == *.part ]] || ((now - ${used%.*} > OLD || total > most || free < mnrun_size)) || continue
    [[ $opened ]] || opened=/$(open_images)
    [[ $opened != *"/$file"* ]] || continue
    rm -f -- "./$file"
    total=$((total - size)) free=$((free + size))
  done
  ((free >= mnrun_size)) ||
    fail "no space left: $folder has $((free / 1000000)) MB for an image of $((mnrun_size / 1000000)) MB: remove files there, or name another with --stage-dir"
}

open_images() { # Print the images that processes of the user have open, and those that are mounted by the kernel
  find /proc/[0-9]*/fd -lname '*/sha256-*' -printf '%l\n' 2>/dev/null || true # processes end meanwhile
  cat /sys/block/loop*/loop/backing_file 2>/dev/null || true
}

receive() { # SIZE: Write the next bytes of standard input to the new copy
  local left=$1 piece=$((16 << 20)) why
  : >"./$part"
  while ((left > 0)); do
    why=$(head -c "$((left < piece ? left : piece))" 2>&1 >>"./$part") ||
      fail "cannot write to $folder: ${why##*: }; name another with --stage-dir"
    ((left -= piece)) || true
    say alive # mnrun takes a silent node for lost
  done
  [[ $(stat -c %s "./$part") == "$1" ]] || exit 143 # mnrun has ended meanwhile
}

take() { # Give the new copy its name, if its digest is right
  local sum
  say pulling "reads its copy"
  read -r sum _ < <(sha256sum <"./$part") || sum=
  [[ ! -f $name ]] || return 0 # another node, which shares the directory, was quicker
  [[ $sum == "$digest" ]] || fail "its copy of the image is not what mnrun has read: did the file change meanwhile?"
  mv -f -- "./$part" "./$name" 2>/dev/null || [[ -f $name ]] || fail "cannot rename its copy of the image in $folder"
}

linked() { # Test whether FILE is the image, and make the copy a link to it
  local sum
  [[ ! -L $name ]] || rm -f -- "./$name" # FILE may have changed since
  [[ -f $file && -r $file ]] && read -r sum _ < <(sha256sum <"$file") && [[ $sum == "$digest" ]] &&
    ln -sn -- "$file" "./$name"
}

lacks=''
if have; then
  touch -c -- "./$name"
  say image "sha256:$digest" "$mnrun_copy"
elif [[ $what == look ]]; then
  if linked; then say image "sha256:$digest" "$mnrun_copy"; else say lacks -; fi
  exit 0
else
  lacks=1
  room
  trap 'trap "" TERM INT HUP; rm -f -- "./$part"' EXIT
  say lacks "$mnrun_job_value.$mnrun_step"
fi
trap 'exit 143' TERM INT HUP
if [[ $what == take ]]; then
  why=$(cat 2>&1 >"./$part") || fail "cannot write to $folder: ${why##*: }; name another with --stage-dir"
  take
  exit 0
fi
trap '' USR1 USR2 # Slurm sends a step's signal to all its processes, and it is for the program
waited=0 word='' size=''
# `read` returns more than 128 where no line came in time. The rounds have 5 s, as in pull_image.sh.
while read -r ${mnrun_silence:+-t 5} word size && waited=0 || (($? > 128 && (waited += 5) < mnrun_silence)); do
  if [[ $lacks && ( $word == take || $word == copy ) ]]; then
    lacks=''
    [[ $word == take ]] || receive "$size"
    take
    say image "sha256:$digest" "$mnrun_copy"
  fi
done

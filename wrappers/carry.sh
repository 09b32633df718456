#!/bin/bash
# What comes down to the commands of this node, and to who waits for one (frames.sh): records of 1023 bytes on standard
# input, each a line `ask|answer NODE OTHER ID KIND DATA` and blanks. Data goes as it comes into a file STREAM.LINE of
# the command's directory, which the reader removes; the number of its first LINE goes, once a message is whole, into the
# pipe where he waits. He holds these pipes open; others open them for a moment only, and nothing is lost. Never waits:
# a few short lines at a time are all that goes into a pipe, however small the system makes one.
set -f
LC_ALL=C # a character is a byte
declare -A first=() number=()

hand() { # PIPE TEXT
  if [[ -p $1 ]]; then echo "$2" 1<>"$1"; fi 2>/dev/null
}

while IFS= read -r -N 1023 record; do
  # shellcheck disable=SC2086  # its words
  set -- $record
  if [[ $1 == ask ]]; then box=run.$3.$4 back=in; else box=ask.$4 back=back; fi
  stream=$box/${5%+}
  case $5 in
    in+ | out+ | err+ | in | out | err)
      [[ -p $box/$back ]] || continue # nobody waits for it
      number[$stream]=$((${number[$stream]-0} + 1))
      : "${first[$stream]:=${number[$stream]}}"
      if [[ $6 != "${number[$stream]}" ]] || ! printf '%s' "$7" >>"$stream.${first[$stream]}"; then
        hand "$box/$back" "${5%+} gap"
      elif [[ $5 != *+ ]]; then
        hand "$box/$back" "$5 ${first[$stream]}"
        unset "first[$stream]"
      fi 2>/dev/null
      ;;
    took) hand "$box/room.$6" 1 ;;
    got) hand "$box/$back" "got $6" ;;
    *) # eof; code, no
      case $5 in # whose last lines may be the ones that are missing
        eof) [[ $6 == "${number[$box/in]-0}" ]] || set -- "${@:1:4}" in gap ;;
        code) [[ "$7 $8" == "${number[$box/out]-0} ${number[$box/err]-0}" ]] || set -- "${@:1:4}" code gap ;;
      esac
      hand "$box/$back" "${*:5}"
      for stream in in out err; do unset "number[$box/$stream]" "first[$box/$stream]"; done
      ;;
  esac
done

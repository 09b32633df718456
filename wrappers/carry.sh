#!/bin/bash
# What comes down to the commands of this node, and to who waits for one (frames.sh): records of 1023 bytes on standard
# input, each a line `ask|answer NODE OTHER ID KIND DATA` and blanks. Data goes as it comes into STREAM.data of the
# command's directory, and once a message is whole its size into the pipe where its reader waits: he need not look at
# each byte. He holds these pipes open; others open them for a moment only, and nothing is lost. Never waits: nobody
# is sent more than they hold.
set -uf
LC_ALL=C # a character is a byte
declare -A size=() number=()

hand() { # PIPE TEXT
  if [[ -p $1 ]]; then printf '%s' "$2" 1<>"$1"; fi 2>/dev/null
}

while IFS= read -r -N 1023 record; do
  # shellcheck disable=SC2086  # its words
  set -- $record
  if [[ $1 == ask ]]; then box=run.$3.$4 back=in; else box=ask.$4 back=back; fi
  message=$box/${5%+}
  case $5 in
    in+ | out+ | err+ | in | out | err)
      number[$message]=$((${number[$message]-0} + 1))
      if [[ $6 != "${number[$message]}" ]]; then
        hand "$box/$back" "${5%+} gap"$'\n'
        continue
      fi
      hand "$message.data" "$7"
      size[$message]=$((${size[$message]-0} + ${#7}))
      [[ $5 != *+ ]] || continue
      hand "$box/$back" "$5 ${size[$message]}"$'\n'
      unset "size[$message]"
      ;;
    took) hand "$box/room.$6" $'1\n' ;;
    *) # eof; code, got, no
      hand "$box/$back" "${*:5}"$'\n'
      [[ $5 == got ]] || unset "number[$box/in]" "number[$box/out]" "number[$box/err]"
      ;;
  esac
done

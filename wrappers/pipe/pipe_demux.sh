#!/bin/bash
# The guard starts this on the node, in the job's directory. It delivers the data that comes down the lease
# (pipe_frames.sh). The receivers are the commands of this node, and processes here that wait for a command elsewhere.
# Standard input is records of 1023 bytes, each a line `ask|answer NODE OTHER ID KIND DATA` padded with blanks.
# `read -N` takes such records in blocks.
#
# Each line of data goes at once into a file STREAM.LINE of the command's directory. The reader removes that file.
# Once a message is whole, the number of its first LINE goes into the pipe on which the reader waits. The reader holds
# that pipe open, so a line stays in it although this script opens the pipe only for a moment.
# A write never blocks. Such a pipe holds only a few short lines at a time, and the smallest pipe of Linux holds a page
# (pipe(7)).
set -f
LC_ALL=C # `read -N` counts characters, and they must be bytes
declare -A first=() number=()

hand() { # PIPE TEXT: Write TEXT to PIPE, if it is there
  if [[ -p $1 ]]; then echo "$2" 1<>"$1"; fi 2>/dev/null
}

while IFS= read -r -N 1023 record; do
  # shellcheck disable=SC2086  # the record's words; set -f keeps them from being patterns
  set -- $record
  if [[ $1 == ask ]]; then box=run.$3.$4 back=in; else box=ask.$4 back=back; fi
  stream=$box/${5%+}
  case $5 in
    in+ | out+ | err+ | in | out | err)
      [[ -p $box/$back ]] || continue # the reader has gone
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
    *) # eof, code and no
      case $5 in
        # The last lines of the stream may be missing. eof and code carry the number of lines.
        eof) [[ $6 == "${number[$box/in]-0}" ]] || set -- "${@:1:4}" in gap ;;
        code) [[ "$7 $8" == "${number[$box/out]-0} ${number[$box/err]-0}" ]] || set -- "${@:1:4}" code gap ;;
      esac
      hand "$box/$back" "${*:5}"
      for stream in in out err; do unset "number[$box/$stream]" "first[$box/$stream]"; done
      ;;
  esac
done

#!/bin/sh
# rank.sh runs `label.sh RANK WORDS…` in the container. It puts the rank's number in front of every line of output.
# A mark in each pipe tells the readers the end, because children may still hold the pipe open.
mnrun_here=${0%/*}
mnrun_rank=$1
shift
mnrun_mark=$(printf '\001%s ended\001' "${mnrun_here##*/}")
mnrun_pipe=$mnrun_here/label.$mnrun_rank
trap : HUP INT QUIT TERM USR1 USR2 ALRM # these signals are for the program

label() { # Put the rank's number in front of each line, as soon as the line is whole
  # A last line without a newline is printed as a whole line.
  trap '' HUP INT QUIT TERM USR1 USR2 ALRM
  unset TMOUT # with the user's, bash would end a `read`
  cd / # rank.sh says why
  LC_ALL=C # the lines may hold any bytes
  export LC_ALL
  case $(sed --version 2>/dev/null) in
    "sed (GNU sed)"*) # GNU sed's own -u reads byte by byte
      if command -v stdbuf >/dev/null; then
        exec stdbuf -oL sed -n "/$mnrun_mark\$/!{s/^/$mnrun_rank: /p;d};s/$mnrun_mark\$//;/./s/^/$mnrun_rank: /p;q"
      fi
      ;;
  esac
  while IFS= read -r mnrun_line; do
    case $mnrun_line in *"$mnrun_mark") break ;; esac
    printf '%s: %s\n' "$mnrun_rank" "$mnrun_line" || exit
  done
  mnrun_line=${mnrun_line%"$mnrun_mark"}
  if [ -n "$mnrun_line" ]; then printf '%s: %s\n' "$mnrun_rank" "$mnrun_line"; fi
}

(cd / && exec mkfifo "$mnrun_pipe.out" "$mnrun_pipe.err") 2>/dev/null || {
  echo "fail --label: rank $mnrun_rank cannot make a pipe in $mnrun_here: the image has no mkfifo, or the disk is full; --split-output needs no pipe" 1<>"$mnrun_here/up"
  exit 125
}
label <"$mnrun_pipe.out" &
mnrun_readers=$!
label <"$mnrun_pipe.err" >&2 &
mnrun_readers="$mnrun_readers $!"
exec >"$mnrun_pipe.out" 2>"$mnrun_pipe.err" # each open waits for its reader
# The inner shell notes its own pid, so that signals reach the program and not this shell. Standard error is /dev/null
# here, so that this shell does not print `Terminated`.
{
  /bin/sh -c 'exec 2>"$2.err"; . "$0/pid.sh"; mnrun_namespace; mnrun_self; echo "$mnrun_process" >"$0/pid.$1"; echo "pid $1 $mnrun_process" 1<>"$0/up"; shift 2; exec "$@"' \
    "$mnrun_here" "$mnrun_rank" "$mnrun_pipe" "$@"
} 2>/dev/null
mnrun_code=$?
trap '' PIPE # the readers may have gone
echo "$mnrun_mark" 2>/dev/null
echo "$mnrun_mark" >&2
for mnrun_reader in $mnrun_readers; do
  while kill -0 "$mnrun_reader" 2>/dev/null; do wait "$mnrun_reader"; done # a signal may interrupt the wait
done
exit $mnrun_code

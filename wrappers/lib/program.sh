# shellcheck shell=sh disable=SC2034
# Wrappers in containers source this file before they become a program. A failed exec would name these scripts, and
# not the reason: without its interpreter, a file is "not found" for dash and busybox.

mnrun_try() { # PROGRAM: Set mnrun_why to the reason for which PROGRAM cannot start, or to nothing, and mnrun_code
  # The codes are the shell's. It takes no process.
  mnrun_why='' mnrun_code=127 mnrun_file=''
  case $1 in
    */*) [ ! -e "$1" ] || mnrun_file=$1 ;;
    *)
      IFS=:
      for mnrun_it in $PATH; do
        if [ -f "$mnrun_it/$1" ] && [ -x "$mnrun_it/$1" ]; then mnrun_file=$mnrun_it/$1 && break; fi
      done
      unset IFS ;;
  esac
  if [ -z "$mnrun_file" ]; then
    mnrun_why="sh: $1: not found"
    case $1 in */*) ;; *) [ ! -f "./$1" ] || mnrun_why="$mnrun_why, but ./$1 is there" ;; esac
  elif [ -d "$mnrun_file" ]; then
    mnrun_why="sh: $1: Is a directory" mnrun_code=126
  elif [ ! -x "$mnrun_file" ]; then
    mnrun_why="sh: $1: Permission denied" mnrun_code=126
  elif [ -f "$mnrun_file" ] && [ -r "$mnrun_file" ] && read -r mnrun_it <"$mnrun_file"; then
    case $mnrun_it in
      '#!'*[![:print:][:blank:]]) mnrun_why="sh: $1: bad interpreter: its lines end in CR LF" ;;
      '#!'*)
        mnrun_it=${mnrun_it#'#!'} mnrun_it=${mnrun_it#"${mnrun_it%%[![:blank:]]*}"} mnrun_it=${mnrun_it%%[[:blank:]]*}
        [ -e "$mnrun_it" ] || mnrun_why="sh: $1: bad interpreter: $mnrun_it: not found" ;;
    esac
  fi 2>/dev/null
}

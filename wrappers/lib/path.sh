# shellcheck shell=sh disable=SC2154
# Wrappers in the container source this file. It removes the directories of mnrun's own programs from PATH, wherever
# they are: an mpirun may have put other directories in front.
PATH=:$PATH:
while :; do
  case $PATH in
    *":$mnrun_here/bin:"*) PATH=${PATH%%":$mnrun_here/bin:"*}:${PATH#*":$mnrun_here/bin:"} ;;
    *":$mnrun_here/out:"*) PATH=${PATH%%":$mnrun_here/out:"*}:${PATH#*":$mnrun_here/out:"} ;;
    *) break ;;
  esac
done
PATH=${PATH#:} PATH=${PATH%:}

# shellcheck shell=sh disable=SC2154
# Wrappers in the container source this file, with $mnrun_here set. It removes the directory of mnrun's own programs
# from PATH, wherever it is. An mpirun may have put other directories in front.
PATH=:$PATH:
while :; do
  case $PATH in
    *":$mnrun_here/bin:"*) PATH=${PATH%%":$mnrun_here/bin:"*}:${PATH#*":$mnrun_here/bin:"} ;;
    *) break ;;
  esac
done
PATH=${PATH#:} PATH=${PATH%:}

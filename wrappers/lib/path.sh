# shellcheck shell=sh disable=SC2154
# PATH without our own programs, wherever they are in it: an mpirun may have put others in front. Sourced; $mnrun_here.
PATH=:$PATH:
while :; do
  case $PATH in
    *":$mnrun_here/bin:"*) PATH=${PATH%%":$mnrun_here/bin:"*}:${PATH#*":$mnrun_here/bin:"} ;;
    *) break ;;
  esac
done
PATH=${PATH#:} PATH=${PATH%:}

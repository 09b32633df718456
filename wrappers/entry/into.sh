# shellcheck shell=sh disable=SC1090,SC2034,SC3067  # dash, bash and busybox have -O
# `sh -c INTO DIR SCRIPT WORDS…`, the one way into the job's directory DIR by its name, outside a container and inside.
# Everybody may make that name in /tmp as soon as it is free. So the directory is entered once and judged after that,
# by what `.` is: it belongs to us, it lies in /tmp itself, and the file `own` that boot.sh wrote there, for us alone,
# has its name. SCRIPT is then read from `.`, and no name in /tmp is looked up twice.
mnrun_back=${mnrun_from-$PWD}
unset mnrun_from
if cd -- "$0" && [ -O . ] && [ .. -ef "${0%/*}" ] && [ -O own ] && read -r mnrun_name _ <own && [ "$mnrun_name" = "$0" ]; then
  mnrun_here=$0 mnrun_script=$1
  shift
  . "./$mnrun_script"
else
  echo "mnrun: $0 is not the directory of this job" >&2
  exit 121
fi

# shellcheck shell=sh disable=SC1090,SC2034,SC3067  # dash, bash and busybox have -O
# `sh -c INTO DIR SCRIPT WORDS…` enters the job's directory DIR by its name, outside a container or inside, and runs
# SCRIPT there. This is the only way into DIR by its name.
# Every user can make that name in /tmp as soon as it is free. So the text enters the directory once, and then judges
# `.` itself. The directory must belong to the user and lie in /tmp itself, and its file `own` must hold its name.
# boot.sh wrote that file there, for the user alone. The shell then reads SCRIPT from `.`, and looks up no name in /tmp
# twice.
mnrun_back=${mnrun_from-$PWD}
unset mnrun_from TMOUT GREP_OPTIONS # as in boot.sh
if cd -- "$0" && [ -O . ] && [ .. -ef "${0%/*}" ] && [ -O own ] && read -r mnrun_name _ <own && [ "$mnrun_name" = "$0" ]; then
  mnrun_here=$0 mnrun_script=$1
  shift
  . "./$mnrun_script"
else
  echo "mnrun: $0 is not the directory of this job" >&2
  exit 121
fi

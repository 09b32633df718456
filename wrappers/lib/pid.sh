# shellcheck shell=sh
# Wrappers around the job's processes source this file. A process notes its pid and its start time (proc(5), stat,
# field 22), which distinguishes it from a later process with that pid. In a container it notes its pid namespace, too.

mnrun_noted() { # FILE [NAMESPACE]: Note this shell, and so the program that it becomes
  # Blanks separate the fields. The second is the name of this shell, which has none.
  read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ mnrun_began _ <"/proc/$$/stat" || mnrun_began=0
  echo "$$ $mnrun_began ${2-}" >"$1"
}

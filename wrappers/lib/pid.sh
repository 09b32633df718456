# shellcheck shell=sh
# Sourced. How a process of the job says which it is: its number, the time of its start (proc(5), stat, field 22), which
# tells it from a later one of that number, and its pid namespace where that is a container's.

mnrun_noted() { # FILE [NAMESPACE]: this shell's, and so of what it becomes. Its own name has no blanks
  read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ mnrun_began _ <"/proc/$$/stat" || mnrun_began=0
  echo "$$ $mnrun_began ${2-}" >"$1"
}

# shellcheck shell=sh disable=SC2034
# Wrappers around the job's processes source this file, by which a process tells the guard what identifies it.

mnrun_self() { # Set mnrun_process to what identifies this shell, and so the program that it becomes
  # Set mnrun_names first, where the container may have pids of its own.
  # Blanks separate the fields. The second is the name of this shell, which has none.
  read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ mnrun_began _ <"/proc/$$/stat" || mnrun_began=0
  mnrun_process="$$ $mnrun_began${mnrun_names:+ $mnrun_names}"
}

mnrun_namespace() { # Set mnrun_names to the pid namespace of this shell, as readlink prints it
  # Linux 5.14 has the number of an open file (proc(5), fdinfo). On older ones readlink, a process, tells it.
  mnrun_names=''
  while read -r mnrun_key mnrun_value; do
    case $mnrun_key in ino:) mnrun_names="pid:[$mnrun_value]" ;; esac
  done 7</proc/self/ns/pid </proc/self/fdinfo/7 || :
  # Without readlink, the guard finds a process only below its own ones (processes.sh, outer).
  [ -n "$mnrun_names" ] || mnrun_names=$(readlink /proc/self/ns/pid) || mnrun_names='pid:[0]'
} 2>/dev/null

# shellcheck shell=bash disable=SC2154  # mnrun_into, the text of into.sh
# Wrappers on a node source this file, after names.sh and processes.sh. It removes the remains of the user's jobs.
# Slurm kills a guard together with its undertaker in a step that is out of memory, or is cancelled with KILL.
# The user's next launch removes such remains, and so does `mnrun clean --nodes`.
# A job whose guard or undertaker lives is left alone, and so is a directory that --keep has kept.
# In a dry run, mnrun_dry is set, and nothing is removed.

is_left() { # DIRECTORY: Enter it, and test whether it belongs to a job that has ended
  local name node pid start
  cd -- "$1" 2>/dev/null && [[ -O . && .. -ef ${1%/*} && -O own ]] || return 1
  read -r name node pid start _ <own && [[ $name == "$1" && $node == "$mnrun_node" ]] || return 1
  ! lives "$pid" "$start" || return 1
  if { read -r pid start <undertaker; } 2>/dev/null && lives "$pid" "$start"; then return 1; fi
  # In a container with pids of its own, those of an outer job are not to be seen. A guard holds `up` open.
  [[ ! -p up ]] || ! timeout 0.5 bash --norc -p -c ': >up'
}

remains() { # Remove the remains of ended jobs, and print each directory
  local place
  for place in /tmp/mnrun.* /dev/shm/mnrun.*; do
    [[ -O $place && -d $place && ! -L $place ]] || continue
    [[ $place == /tmp/* || ! -O /tmp/${place##*/} ]] || continue # it goes or stays with its directory in /tmp
    ( # the subshell enters the directory
      is_left "$place" || exit 0
      if [[ -z ${mnrun_dry-} ]]; then
        [[ ! -e stop.sh ]] || bash --norc -p -c "$mnrun_into" "$place" stop.sh
        [[ ! -O . || ! . -ef $place ]] || rm -rf --one-file-system -- "$place"
      fi
      echo "$place"
    ) </dev/null 2>/dev/null || true
  done
}

ghosts() { # Remove Apptainer's records of shared containers that ended with the node's power, and print them
  # They lie in the home, so they outlive the node. Apptainer names each by the pid of the process that started it. In a
  # container with pids of its own, a living process is not to be seen. So a record also has to be older than the
  # node's start.
  local record began up now
  instances
  for record in "$REPLY"/sharens_instance_*; do
    [[ ${record##*_} =~ ^[0-9]+$ && ! -e /proc/${record##*_} ]] || continue
    began=$(stat -c %Y "$record") && read -r up _ </proc/uptime && printf -v now '%(%s)T' -1 || continue
    ((began < now - ${up%.*})) && { [[ -n ${mnrun_dry-} ]] || rm -rf -- "$record"; } && echo "$record"
  done 2>/dev/null || true
}

# shellcheck shell=bash
# The guard and head.sh source this file on the node, in the job's directory, after memory.sh.

detach() { # WORDS: Run WORDS outside the scheduler's step, and set mnrun_code to their exit code
  # At some sites a signal to a step reaches all descendants of the step. Such a signal would end MPI's daemons, or the
  # process that keeps an image mounted. The guard receives it too, and forwards it to the program.
  # The caller has a trap for such signals. Grid Engine finds descendants by a group of theirs, and sends USR1 and USR2.
  exec {mnrun_in}<&0 {mnrun_out}>&1
  # shellcheck disable=SC2016  # its own words
  mnrun_run='trap : USR1 USR2; mnrun_in=$1 mnrun_out=$2 mnrun_code=0
    "${@:3}" <&"$mnrun_in" >&"$mnrun_out" {mnrun_in}<&- {mnrun_out}>&- || mnrun_code=$?; echo "$mnrun_code"'
  read -r mnrun_code < <(exec setsid --fork bash --norc -p -c "$mnrun_run" bash "$mnrun_in" "$mnrun_out" "$@") || true
  mnrun_code=${mnrun_code:-137} # a killed shell has written no code
  ((mnrun_code <= 128)) || memory_note
}

# How a runtime begins the line of its error: Apptainer and Singularity, Podman, Docker, Charliecloud.
mnrun_error='^(FATAL|ERROR|Error)[ :]|^time="[^"]*" level=(error|fatal) |^docker: |^unknown (shorthand )?flag: '
mnrun_error+='|^(/[^ ]*/)?ch-run(\[[0-9]+\]: error)?: '

last_words() { # Print the errors of the runtime, or else the last lines of the container's output, as words for the launcher
  # Below the error, a runtime may print its whole help, of which Apptainer 1.4 has 165 lines.
  local line lines=() errors=()
  while read -r line; do
    lines+=("$line")
    [[ ! $line =~ $mnrun_error ]] || errors+=("$line")
  done < <(tail -n 300 serve.log 2>/dev/null | sed -e $'s/\e\\[[0-9;]*m//g' -e '/^ *$/d')
  ((${#errors[@]} == 0)) || lines=("${errors[@]}")
  ((${#lines[@]} <= 5)) || lines=("${lines[@]: -5}")
  for line in "${lines[@]}"; do echo "log ${line:0:500}"; done
}

waits() { # Print the process that the node waits for: of the job's processes without a child, the youngest
  # Helpers of mnrun's run in the job's directory or its `box`, and often start in the same tick as the program. The
  # program goes first.
  local pid latest=0 last='' program=$((1 << 60)) # more ticks than any node has been up
  local -A start=() parents=()
  alive
  # shellcheck disable=SC2154  # sweep.sh
  for pid in "${mnrun_alive[@]}"; do
    stat_of "$pid" || continue
    start[$pid]=${mnrun_stat[19]} parents[${mnrun_stat[1]}]=1
    [[ /proc/$pid/cwd -ef . || /proc/$pid/cwd -ef box ]] || ((start[$pid] += program))
  done
  for pid in "${!start[@]}"; do
    if [[ -z ${parents[$pid]-} ]] && ((start[$pid] >= latest)); then latest=${start[$pid]} last=$pid; fi
  done
  if [[ -n $last ]]; then
    waits_in "$last"
    last=$(tr '\0\t\n' '   ' <"/proc/$last/cmdline" 2>/dev/null) || true
    last="${last% } (${REPLY%%$'\t'*})"
  fi
  echo "waits ${last:0:300}"
}

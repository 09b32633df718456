# shellcheck shell=bash disable=SC2154  # job.sh and processes.sh
# `sample.sh SECONDS [up]` runs on the node, in the job's directory: as a child of the guard (--watch), whose forwarder
# puts the node's name in, or as a text behind into.sh (mnrun top). At each tick it prints what the job uses, in lines
# that launcher/mnrun/watching/samples.py has.
# Its standard input is its clock. So a tick needs no process, and the sampler ends with that input, or with the job.
set -euo pipefail +o posix
source ./job.sh
source ./processes.sh
source ./memory.sh
trap '' HUP INT TERM USR1 USR2 # the scheduler may send them to all processes of the step
shopt -s nullglob
mnrun_sys=${mnrun_sys:-/sys} mnrun_proc=${mnrun_proc:-/proc}
mnrun_every=$1 mnrun_called=''
[[ -n ${2-} ]] || read -r mnrun_called <self
{ read -r mnrun_ticks && read -r mnrun_page; } < <(getconf CLK_TCK && getconf PAGESIZE) || mnrun_ticks=100 mnrun_page=4096

now() { # Set mnrun_now to the time in hundredths of a second. bash 4.4 has whole seconds alone
  local up
  read -r up _ <"$mnrun_proc/uptime"
  mnrun_now=$((mnrun_base + 10#${up/./}))
}
mnrun_base=0
now
printf -v mnrun_base '%(%s)T' -1
mnrun_base=$((mnrun_base * 100 - mnrun_now))

thing() { # WORDS: Add them to the line, or begin a new one: srun keeps shorter ones whole (pipe_frames.sh)
  if ((${#mnrun_line} + ${#1} > 900)); then tell; fi
  mnrun_line+=${mnrun_line:+$'\t'}$1
}

tell() { # Print the line, unless nobody reads it any more
  seconds "$mnrun_now"
  [[ -z $mnrun_line ]] || printf 'sample %s %s\n' "${mnrun_called:+$mnrun_called }$REPLY" "$mnrun_line" 2>/dev/null || exit 0
  mnrun_line=''
}

seconds() { # HUNDREDTHS: Set REPLY to them as seconds
  printf -v REPLY '%d.%02d' $(($1 / 100)) $(($1 % 100))
}

mnrun_cpu='' mnrun_memory=''
if job_group memory; then mnrun_memory=$REPLY; fi
if job_group cpuacct; then mnrun_cpu=$REPLY; fi
if [[ -e $mnrun_memory/memory.current ]]; then
  mnrun_files=(memory.current memory.max inactive_file)
elif [[ -e $mnrun_memory/memory.usage_in_bytes ]]; then
  mnrun_files=(memory.usage_in_bytes memory.limit_in_bytes total_inactive_file)
else
  mnrun_memory=''
fi
[[ -e $mnrun_cpu/cpu.stat || -e $mnrun_cpu/cpuacct.usage ]] || mnrun_cpu=''
read -r _ mnrun_limit _ <"$mnrun_proc/meminfo" # the first line is MemTotal, in kB
mnrun_limit=$((mnrun_limit * 1024))
if [[ -n $mnrun_memory ]] && read -r REPLY <"$mnrun_memory/${mnrun_files[1]}" && [[ $REPLY =~ ^[0-9]+$ ]]; then
  # Without a limit, version 1 has a number beyond all memory.
  ((${#REPLY} > 18 || REPLY > mnrun_limit)) || mnrun_limit=$REPLY
fi
mnrun_cpus=0
read -r _ _ mnrun_guard _ <own # the guard's CPUs are those of the job
while read -r mnrun_word mnrun_list; do
  [[ $mnrun_word == Cpus_allowed_list: ]] || continue
  for mnrun_range in ${mnrun_list//,/ }; do
    mnrun_cpus=$((mnrun_cpus + ${mnrun_range#*-} - ${mnrun_range%-*} + 1))
  done
done 2>/dev/null <"/proc/$mnrun_guard/status" || true
mnrun_hcas=("$mnrun_sys"/class/infiniband/*/ports/*)

# One program for all GPUs, as long as the sampler lives. A line of it has a GPU's index, use in percent, used and whole
# memory in MiB, temperature and power in these columns. amd-smi names its columns in a first line.
mnrun_gpu='' mnrun_columns=(0 1 2 3 4 5) mnrun_visible=,${CUDA_VISIBLE_DEVICES-},
declare -A mnrun_seen=() mnrun_energy=() mnrun_last=()
set --
if [[ -n $mnrun_no_gpu ]]; then
  :
elif command -v nvidia-smi >/dev/null; then
  set -- nvidia-smi --query-gpu=index,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,uuid
  set -- "$@" --format=csv,noheader,nounits -l "$mnrun_every"
elif command -v amd-smi >/dev/null; then
  set -- amd-smi metric --usage --mem-usage --temperature --power --csv --watch "$mnrun_every"
fi
if (($#)); then
  exec {mnrun_gpu}< <(exec "$@" </dev/null 2>/dev/null)
  mnrun_smi=$!
  trap 'kill -KILL "$mnrun_smi" 2>/dev/null || true' EXIT
fi

columns() { # NAMES: Note where amd-smi has its values
  local name i
  mnrun_columns=()
  for name in gpu gfx_activity used_vram total_vram hotspot socket_power; do
    for ((i = 1; i <= $#; i++)); do [[ ${!i} != "$name" ]] || break; done
    mnrun_columns+=($((i - 1)))
  done
}

gpu() { # LINE: Note the values of a GPU, if the job has it
  local IFS=, line=${1//[][ $'\r']/} words values=() i value
  while [[ $line =~ ^([^\"]*)\"[^\"]*\"(.*)$ ]]; do line="${BASH_REMATCH[1]}-${BASH_REMATCH[2]}"; done # a list
  # shellcheck disable=SC2206  # words without blanks, stars and brackets
  words=(${line//\*/})
  if [[ $line == *gfx_activity* ]]; then columns "${words[@]}" && return 0; fi
  for i in "${mnrun_columns[@]}"; do
    value=${words[i]-}
    [[ $value =~ ^[0-9]+(\.[0-9]+)?$ ]] || value=-
    values+=("$value")
  done
  i=${values[0]}
  [[ $i =~ ^[0-9]+$ ]] || return 0
  case $mnrun_visible in ,, | *,MIG-* | *",$i,"*) ;; *",${words[6]:-none},"*) ;; *) return 0 ;; esac
  if [[ ${values[5]} != - ]]; then
    printf -v value %.0f "${values[5]}e3" # mW
    mnrun_energy[$i]=$((${mnrun_energy[$i]-0} + value * (mnrun_now - ${mnrun_last[$i]-$mnrun_now})))
    mnrun_last[$i]=$mnrun_now value=$((mnrun_energy[$i] / 100000))
  else
    value=-
  fi
  for line in 2 3; do [[ ${values[line]} == - ]] || values[line]=$((${values[line]%.*} * 1048576)); done
  IFS=' '
  mnrun_seen[$i]="${values[*]} $value"
}

hear() { # [SECONDS]: Take in what that program has told since the last tick, or its first lines within these seconds
  local line limit=${1-0}
  while [[ -n $mnrun_gpu ]] && { [[ $limit != 0 ]] || read -rt 0 -u "$mnrun_gpu"; }; do
    if IFS= read -rt "${limit/#0/1}" -u "$mnrun_gpu" line; then
      gpu "$line"
      limit=${1:+.2}
      limit=${limit:-0}
    else
      (($? > 128)) || { exec {mnrun_gpu}<&- && mnrun_gpu=''; } # it has ended
      break
    fi
  done
}

network() { # Report the devices that have moved data, but for those of bridges, containers and tunnels
  local line lines words port received sent
  mapfile -t lines <"$mnrun_proc/net/dev"
  for line in "${lines[@]:2}"; do
    # shellcheck disable=SC2206  # a name and numbers
    words=(${line/:/ })
    case ${words[0]} in lo | docker* | veth* | br-* | virbr* | vnet* | cni* | cali* | flannel* | tun* | tap* | dummy*) continue ;; esac
    ((words[1] == 0 && words[9] == 0)) || thing "net ${words[0]} ${words[1]} ${words[9]}"
  done
  for port in "${mnrun_hcas[@]}"; do # the counters have units of four bytes (sysfs-class-infiniband of the kernel)
    { read -r received <"$port/counters/port_rcv_data" && read -r sent <"$port/counters/port_xmit_data"; } 2>/dev/null || continue
    line=${port%/ports/*}
    thing "ib ${line##*/}:${port##*/} $((received * 4)) $((sent * 4))"
  done
}

declare -A mnrun_told=() mnrun_tree=() mnrun_most=()
mnrun_scanned=0 mnrun_count=0
ranks() { # Report the ranks. Set mnrun_all to the hundredths of a second and the bytes of all
  # The children of a process are looked for at times only: it has a file of them for each thread.
  local file rank text pid begin scan='' used pages
  mnrun_all=(0 0)
  if ((mnrun_count++ < 3 || mnrun_now - mnrun_scanned >= 3000)); then scan=1 mnrun_scanned=$mnrun_now; fi
  for file in pid.[0-9]*; do
    rank=${file#pid.}
    if [[ ! $rank =~ ^[0-9]+$ ]] || ! read -r text <"$file"; then continue; fi # it is being written
    if [[ $text != "${mnrun_told[$rank]-}" || -n $scan ]]; then
      # shellcheck disable=SC2086  # a number, a time and perhaps a namespace
      if outer $text; then below "$REPLY"; else mnrun_below=(); fi
      mnrun_told[$rank]=$text mnrun_tree[$rank]=${mnrun_below[*]}
    fi
    used=0 pages=0 begin=''
    for pid in ${mnrun_tree[$rank]}; do
      if ! stat_of "$pid"; then
        [[ -n $begin ]] || break # the rank has ended
        continue
      fi
      begin=${begin:-$pid}
      used=$((used + mnrun_stat[11] + mnrun_stat[12] + mnrun_stat[13] + mnrun_stat[14])) # with children that have ended
      pages=$((pages + mnrun_stat[21]))
    done
    [[ -n $begin ]] || continue
    used=$((used * 100 / mnrun_ticks))
    ((used >= ${mnrun_most[$rank]-0})) || used=${mnrun_most[$rank]} # a child has gone whose time nobody has got
    mnrun_most[$rank]=$used mnrun_all[0]=$((mnrun_all[0] + used)) mnrun_all[1]=$((mnrun_all[1] + pages * mnrun_page))
    seconds "$used"
    thing "rank $rank $begin $REPLY $((pages * mnrun_page))"
  done
}

node() { # Report the CPU time and the memory of the job, or else of its ranks
  local used=${mnrun_all[0]} memory=${mnrun_all[1]} line lines
  if [[ -e $mnrun_cpu/cpu.stat ]]; then
    read -r _ used <"$mnrun_cpu/cpu.stat" && used=$((used / 10000)) # usage_usec
  elif [[ -n $mnrun_cpu ]]; then
    read -r used <"$mnrun_cpu/cpuacct.usage" && used=$((used / 10000000))
  fi
  if [[ -n $mnrun_memory ]]; then
    read -r memory <"$mnrun_memory/${mnrun_files[0]}" && mapfile -t lines <"$mnrun_memory/memory.stat"
    for line in "${lines[@]}"; do [[ $line != "${mnrun_files[2]} "* ]] || memory=$((memory - ${line#* })); done
  fi
  seconds "$used"
  thing "cpu $REPLY $mnrun_cpus"
  thing "memory $memory $mnrun_limit"
} 2>/dev/null

mnrun_line=''
now
hear 5
while :; do
  now
  hear
  for mnrun_word in "${!mnrun_seen[@]}"; do thing "gpu ${mnrun_seen[$mnrun_word]}"; done
  mnrun_seen=()
  ranks
  node || true
  network
  tell
  read -rt "$mnrun_every" || (($? > 128)) || exit 0
  [[ -e own ]] || exit 0 # the guard has removed the directory
done

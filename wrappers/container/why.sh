# shellcheck shell=bash disable=SC2154  # job.sh and into.sh
# into.sh runs `why.sh` on the node, in the job's directory. It prints these lines for each rank here, with tabs between
# the words:
#     rank NODE RANK PID STATE CPU WCHAN SYSCALL PROGRAM   a program of the rank. CPU is its time in one second
#     gone NODE RANK                                       the rank has ended
#     stack NODE RANK PID LINE                             its stack, by py-spy or gdb
# A rank that is a shell stands for the programs that the shell runs.
set -euo pipefail +o posix
source ./job.sh
source ./processes.sh
mnrun_node=$(<self)
mnrun_ticks=$(getconf CLK_TCK)
say() { (IFS=$'\t' && printf '%s\n' "$*"); }

programs() { # PID: Print the programs below a process that only waits for them, or else the process itself
  local name='' children=() child
  { read -r name <"/proc/$1/comm"; } 2>/dev/null || true
  { read -ra children <"/proc/$1/task/$1/children"; } 2>/dev/null || true # the file has no newline at its end
  case $name in sh | bash | dash | ash | busybox | ksh | zsh | env | time | timeout | torchrun) ;; *) children=() ;; esac
  ((${#children[@]})) || echo "$1"
  for child in "${children[@]}"; do programs "$child"; done
}

used() { # PID: Set REPLY to its state and its time on CPUs, in ticks
  stat_of "$1" || true # the times are the fields 14 and 15 (proc(5), stat)
  REPLY="${mnrun_stat[0]-gone} $((${mnrun_stat[11]-0} + ${mnrun_stat[12]-0}))"
}

stack() { # RANK PID: Print the stack of a program, by a debugger of its container or else of the node
  local inside tool words
  inside=$(sed -n 's/^NSpid:.*[[:space:]]//p' "/proc/$2/status") || return 0
  # shellcheck disable=SC2016  # its own words
  tool='case $(readlink "/proc/$1/exe") in
      *python*) if command -v py-spy >/dev/null && py-spy dump --pid "$1" 2>/dev/null; then exit 0; fi ;;
    esac
    command -v gdb >/dev/null &&
      gdb -nx -p "$1" -batch -ex "set print frame-arguments none" -ex "thread apply all bt" 2>/dev/null |
        grep -E "^(#[0-9]|Thread )"'
  words=(bash --norc -p -c "$mnrun_into" "$mnrun_here" enter.sh "$1" sh -c "$tool" sh "$inside")
  { timeout -k 1 20 "${words[@]}" || timeout -k 1 20 sh -c "$tool" sh "$2" || true; } 2>/dev/null </dev/null |
    while IFS= read -r line; do [[ -z $line ]] || say stack "$mnrun_node" "$1" "$2" "${line:0:300}"; done
}

declare -A mnrun_before=()
mnrun_found=()
for mnrun_file in pid.[0-9]*; do
  [[ -e $mnrun_file ]] || continue
  mnrun_rank=${mnrun_file#pid.}
  [[ $mnrun_rank =~ ^[0-9]+$ ]] || continue
  read -r mnrun_pid mnrun_start mnrun_names <"$mnrun_file" || continue # the rank is writing it, or /tmp was full
  if ! outer "$mnrun_pid" "$mnrun_start" "$mnrun_names"; then
    say gone "$mnrun_node" "$mnrun_rank"
    continue
  fi
  for mnrun_pid in $(programs "$REPLY"); do
    used "$mnrun_pid"
    mnrun_before[$mnrun_pid]=${REPLY#* }
    mnrun_found+=("$mnrun_rank $mnrun_pid")
  done
done
sleep 1
for mnrun_pair in "${mnrun_found[@]}"; do
  mnrun_rank=${mnrun_pair% *} mnrun_pid=${mnrun_pair#* }
  used "$mnrun_pid"
  mnrun_state=${REPLY% *} mnrun_after=${REPLY#* }
  mnrun_cpu=$(((mnrun_after - mnrun_before[$mnrun_pid]) * 100 / mnrun_ticks))
  waits_in "$mnrun_pid"
  mnrun_name=$(tr '\0\t\n' '   ' <"/proc/$mnrun_pid/cmdline" 2>/dev/null) || true
  say rank "$mnrun_node" "$mnrun_rank" "$mnrun_pid" "$mnrun_state" "$mnrun_cpu" "$REPLY" "${mnrun_name:0:200}"
done
for mnrun_pair in "${mnrun_found[@]}"; do stack "${mnrun_pair% *}" "${mnrun_pair#* }" & done
wait

# shellcheck shell=sh disable=SC2154  # job.sh
# Wrappers on the node and in containers source this file, after job.sh.

hex() { # NUMBER: Set digits to its four hexadecimal digits
  digits='' rest=$1
  while [ "${#digits}" -lt 4 ]; do
    digit=$((rest % 16)) rest=$((rest / 16))
    case $digit in 10) digit=A ;; 11) digit=B ;; 12) digit=C ;; 13) digit=D ;; 14) digit=E ;; 15) digit=F ;; esac
    digits=$digit$digits
  done
}

taken() { sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]* \).*/ \1/p' /proc/net/tcp /proc/net/tcp6 2>/dev/null; }

ports() { # COUNT TAKEN: Set mnrun_free to COUNT free ports of the range that the nodes' firewall lets through
  # TAKEN has ` PORT ` of each port in use, in hexadecimal. bash reads the tables of the kernel by itself (guard.sh).
  # Other shells read single bytes, so they start `taken`.
  from=${mnrun_ports%-*} to=${mnrun_ports#*-} mnrun_free=''
  # Each job starts at a random port of its own, so no process can know the port beforehand (random(4)).
  read -r start </proc/sys/kernel/random/uuid
  start=$((0x${start%?-*-*-*-*})) # seven digits, which any shell can count with
  seen=0 found=0
  while [ "$found" -lt "$1" ] && [ "$seen" -le $((to - from)) ]; do
    port=$((from + (start + seen) % (to - from + 1)))
    seen=$((seen + 1))
    hex "$port" # a printf for each would be a process for each
    case $2 in *" $digits "*) continue ;; esac
    found=$((found + 1)) mnrun_free="$mnrun_free$port "
  done
}

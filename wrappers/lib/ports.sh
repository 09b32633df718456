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

taken() { # Print ` PORT ` for each port in use, and ` PORT.` for each connection that has ended there
  # A port may be in both. 06 is TIME_WAIT, in which a connection stays for 60 s (include/net/tcp_states.h of Linux).
  sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) [0-9A-F:]* 06 .*/ \1./p
    s/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]* \).*/ \1/p' /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

ports() { # COUNT TAKEN: Set mnrun_free to COUNT free ports of the range that the nodes' firewall lets through
  # TAKEN is what `taken` prints. bash reads the tables of the kernel by itself (guard.sh). Other shells read single
  # bytes, so they start `taken`.
  from=${mnrun_ports%-*} to=${mnrun_ports#*-} mnrun_free=''
  # Each job starts at a random port of its own, so no process can know the port beforehand (random(4)).
  read -r start </proc/sys/kernel/random/uuid
  start=$((0x${start%?-*-*-*-*})) # seven digits, which any shell can count with
  size=$((to - from + 1)) seen=0 found=0
  # The second round takes ports of connections that have ended. Servers can bind to these (socket(7), SO_REUSEADDR).
  while [ "$found" -lt "$1" ] && [ "$seen" -lt $((2 * size)) ]; do
    port=$((from + (start + seen) % size))
    seen=$((seen + 1))
    hex "$port" # a printf for each would be a process for each
    case $2 in
      *" $digits "*) continue ;;
      *" $digits."*) [ "$seen" -gt "$size" ] || continue ;;
      *) [ "$seen" -le "$size" ] || continue ;;
    esac
    found=$((found + 1)) mnrun_free="$mnrun_free$port "
  done
}

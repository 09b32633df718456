# shellcheck shell=sh disable=SC2154  # job.sh
# Sourced, after job.sh.

ports() { # COUNT: so many, a line each, of those that the nodes' firewall lets through and nobody listens on here
  from=${mnrun_ports%-*} to=${mnrun_ports#*-}
  taken=" $(sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) .*/\1/p' /proc/net/tcp /proc/net/tcp6 2>/dev/null | tr '\n' ' ')"
  start=$(od -An -N3 -tu4 /dev/urandom) # each job begins to look at a place of its own, which nobody can know before
  seen=0 found=0
  while [ "$found" -lt "$1" ] && [ "$seen" -le $((to - from)) ]; do
    port=$((from + (start + seen) % (to - from + 1)))
    seen=$((seen + 1))
    case $taken in *" $(printf %04X "$port") "*) continue ;; esac
    found=$((found + 1))
    echo "$port"
  done
}

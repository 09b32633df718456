# shellcheck shell=sh
# A pod starts this text as its first process: `sh -c HOLD JOB FIRST SILENCE`. It keeps the pod for the guards of JOB.
# It ends FIRST seconds after its begin if no guard comes, and SILENCE seconds after the last one has gone: mnrun was
# killed then. A guard may live for less than a second, so the end of a command of a launch counts too: USR1 tells of it
# (channel.py). kubelet sends it a TERM at the end of the pod, of which it tells the guards, and waits for them.
# The time is the machine's since its start, whatever a round takes on a busy node. sh has no clock of its own.
mnrun_job=$0 mnrun_silence=$2
until_in() { # SECONDS: Set the time of the end
  read -r mnrun_now _ </proc/uptime
  mnrun_end=$((${mnrun_now%.*} + $1))
}
guards() { # SIGNAL: Send it to the guards. Return false where there are none
  mnrun_there=''
  for mnrun_file in "/tmp/mnrun.$mnrun_job"-*/own; do
    read -r _ _ mnrun_pid _ <"$mnrun_file" && kill -s "$1" "$mnrun_pid" && mnrun_there=1
  done 2>/dev/null
  [ -n "$mnrun_there" ]
}
# shellcheck disable=SC2329  # a trap calls it
over() {
  trap '' TERM
  guards TERM
  while guards 0; do sleep 0.2; done
  exit 143
}
trap over TERM
trap 'until_in "$mnrun_silence"' USR1
until_in "$1"
while [ "${mnrun_now%.*}" -lt "$mnrun_end" ]; do
  sleep 1 & # a trap waits for a program in the foreground
  wait "$!"
  read -r mnrun_now _ </proc/uptime
  if guards 0; then until_in "$mnrun_silence"; fi
done
# kubelet puts this into the status of the pod.
[ ! -w /dev/termination-log ] || echo 'its mnrun has gone' >/dev/termination-log
exit 76

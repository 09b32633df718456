#!/bin/sh
# The host's mpirun finds this as srun, by which it starts its daemons on other nodes, with its errors sent to /dev/null.
# PRRTE 3 ends with 0 if one of them is killed (plm_slurm_module.c, srun_wait_cb, sets no exit code). So the guard reads
# srun's errors in the file `daemons`, which is empty if all went well.
mnrun_here=${0%/out/*}
. "$mnrun_here/path.sh"
export PATH
case " $* " in
  *prted* | *orted* | *hydra*) ;;
  *) exec srun "$@" ;; # `srun --version`
esac
# A shell takes no signal while it waits for a program in its foreground, and gives /dev/null to one behind it.
exec 3<&0 4>&2
if [ /proc/self/fd/2 -ef /dev/null ]; then exec 4>"$mnrun_here/daemons"; fi
mnrun_pid='' mnrun_term=''
trap 'mnrun_term=1; [ -z "$mnrun_pid" ] || kill -TERM "$mnrun_pid"' HUP INT TERM
srun "$@" <&3 2>&4 3<&- 4>&- &
mnrun_pid=$!
[ -z "$mnrun_term" ] || kill -TERM "$mnrun_pid" # the signal came before
until
  wait "$mnrun_pid"
  mnrun_code=$?
  ! kill -0 "$mnrun_pid" 2>/dev/null
do :; done
if [ "$mnrun_code" -gt 128 ] && [ "$mnrun_code" -lt 255 ] && [ ! -s "$mnrun_here/daemons" ]; then # a signal
  echo "srun: error: srun: task 0: ended with $mnrun_code" >&4
fi
exit "$mnrun_code"

# shellcheck shell=bash
# Runs beside mnrun, as `bash -p -c` (system/process.py): writes `alive` to the lease's pipe every 10 s. It is a process
# of its own, which Ctrl-Z does not stop as it stops mnrun. It ends at once with mnrun, whose end its own input tells.
# A line that short is never torn by what mnrun writes to the same pipe (pipe(7), PIPE_BUF).
trap '' HUP INT QUIT TERM USR1 USR2
while read -rt 10 || [ $? -gt 128 ]; do echo alive || exit; done # above 128 the time is over; 1 is the end of the input

# shellcheck shell=bash
# mnrun starts this beside itself, as `bash --norc -p -c` (system/process.py). It writes `alive` to the pipe of the
# lease every 10 s.
# It is a process of its own, so Ctrl-Z does not stop it with mnrun. It ends with mnrun, because its own input ends.
# A line this short is never mixed with another line of mnrun in that pipe (pipe(7), PIPE_BUF).
trap '' HUP INT QUIT TERM USR1 USR2
# A read that fails with more than 128 has timed out. The code 1 is the end of the input.
while read -rt 10 || [ $? -gt 128 ]; do echo alive || exit; done

# shellcheck shell=sh
# salloc runs this as `sh -c ALLOCATION PREFIX` where mnrun asks for its own nodes (schedulers/slurm/allocate.py).
# It prints the variables whose names begin with PREFIX, one a line, and an empty line. Then it waits for a line with
# the exit code of the program, which becomes its own and the job's. Without one, mnrun was killed: 128 + KILL.
unset TMOUT GREP_OPTIONS # as in boot.sh
env -0 | tr '\n\0' ' \n' | grep "^$0"
echo
read -r code
exit "${code:-137}"

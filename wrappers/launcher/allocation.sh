# shellcheck shell=sh
# salloc runs this as `sh -c` where mnrun asks for its own nodes (schedulers/slurm/allocate.py).
# It prints the variables that Slurm has set, one a line, and an empty line. Then it waits for the end of its input,
# which mnrun holds.
env -0 | tr '\n\0' ' \n' | grep '^SLURM_'
echo
exec cat >/dev/null

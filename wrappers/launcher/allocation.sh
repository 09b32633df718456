# shellcheck shell=sh
# What salloc runs, as `sh -c` (schedulers/slurm/allocate.py), where mnrun asks for nodes of its own. It says what Slurm
# has set, a variable to a line and then an empty line. Then it waits for the end of its input, which mnrun holds.
env -0 | tr '\n\0' ' \n' | grep '^SLURM_'
echo
exec cat >/dev/null

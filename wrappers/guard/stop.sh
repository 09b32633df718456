# shellcheck shell=bash
# into.sh runs this on the node, in the job's directory. It ends a job's processes there and removes its directory.
# The launcher starts it in a step of its own where a guard ended without a `bye`.
# leftovers.sh starts it for a job whose guard was killed.
# Standard error names the processes that could not be ended.
set -euo pipefail +o posix
source ./sweep.sh
read -r _ _ _ _ mnrun_boot <own
{ read -r mnrun_now </proc/sys/kernel/random/boot_id; } 2>/dev/null || mnrun_now=unknown
# After a restart of the node, other processes have these numbers.
[[ $mnrun_boot == "$mnrun_now" ]] || rm -f sessions holder
# Slurm's job may be an earlier one than that of this step.
case $mnrun_id in [0-9]*) SLURM_JOB_ID=${mnrun_id%%-*} ;; *) unset SLURM_JOB_ID ;; esac
forget_keys
sweep_all
wipe
[[ -z $mnrun_left ]] || { echo "could not be ended: $mnrun_left" >&2; exit 1; }

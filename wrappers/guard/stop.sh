# shellcheck shell=bash
# into.sh runs this on the node, in the job's directory. It ends the job's processes and removes the directory, where
# a guard ended without a `bye` (the launcher), or was killed (leftovers.sh).
set -euo pipefail +o posix
source ./sweep.sh
read -r _ _ _ _ mnrun_boot <own
{ read -r mnrun_now </proc/sys/kernel/random/boot_id; } 2>/dev/null || mnrun_now=unknown
# After a restart of the node, other processes have these numbers.
[[ $mnrun_boot == "$mnrun_now" ]] || rm -f sessions holder
# shellcheck disable=SC2086  # names
unset ${mnrun_marks//|/ } # the scheduler's job may be an earlier one than that of this step
forget_keys
sweep_all
wipe
[[ -z $mnrun_left ]] || { echo "could not be ended: $mnrun_left" >&2; exit 1; }

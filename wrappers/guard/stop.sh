# shellcheck shell=bash
# The guards' last work, in a step of its own, where a guard went without a farewell; and what leftovers.sh does with the
# directory of a job that was killed outright. Comes by into.sh.
set -euo pipefail +o posix
source ./sweep.sh
rm -f key hostkey
left=$(sweep_all)
wipe
[[ -z $left ]] || { echo "could not be ended: $left" >&2; exit 1; }

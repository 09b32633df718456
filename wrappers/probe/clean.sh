# shellcheck shell=bash disable=SC2034
# The launcher runs this on a node for `mnrun clean --nodes`. It removes the remains of killed jobs.
# It prints each removed directory on standard output.
# names.sh, processes.sh, leftovers.sh and the text of into.sh as mnrun_into stand in front of it (nodes/kit.py).
mnrun_node=${MNRUN_NODE:-${SLURMD_NODENAME:-$(uname -n)}} # leftovers.sh reads this name
remains
ghosts

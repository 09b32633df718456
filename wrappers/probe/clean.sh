# shellcheck shell=bash disable=SC2034
# Runs on a node for `mnrun clean --nodes`: takes away what killed jobs have left, and names it. In front of it stand
# processes.sh, leftovers.sh, and the text of into.sh as mnrun_into (nodes/kit.py).
mnrun_node=${MNRUN_NODE:-${SLURMD_NODENAME:-$(uname -n)}} # leftovers.sh reads it
remains

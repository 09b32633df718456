# shellcheck shell=bash disable=SC2154
# Runs on nodes for `mnrun plan`, before anything of a launch is there: says what they have of networks, in a guard's
# words. In front of it stand address.sh, and network_facts.sh as a function `fabric` (nodes/kit.py).
node=${SLURMD_NODENAME:-$(uname -n)}
fabric | while IFS= read -r line; do echo "fact $node $line"; done
echo "ready $node address=$(address)"

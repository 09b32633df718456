# shellcheck shell=bash disable=SC2154
# The launcher runs this on nodes for `mnrun plan`, before any other file of a launch is there. It prints the facts of
# their networks, in the words of a guard.
# address.sh stands in front of it, and network_facts.sh as a function `fabric` (nodes/kit.py).
node=${SLURMD_NODENAME:-$(uname -n)}
fabric | while IFS= read -r line; do echo "fact $node $line"; done
echo "ready $node address=$(address)"

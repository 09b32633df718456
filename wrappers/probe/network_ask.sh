# shellcheck shell=bash
# The launcher runs this on nodes for `mnrun plan`, before any other file of a launch is there. It prints the facts of
# their networks, and the address of each.
# address.sh and facts.sh stand in front of it, and network_facts.sh as a function `fabric` (nodes/kit.py).
fabric | facts
address "$(uname -n)"
fact address "$REPLY"

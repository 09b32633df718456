# shellcheck shell=bash
# The launcher runs this on nodes for `mnrun plan`, before any other file of a launch is there. It prints the facts of
# their networks, and the address of each.
# needs: facts.sh address.sh network_facts.sh()
network_facts | facts
address "$(uname -n)"
fact address "$REPLY"

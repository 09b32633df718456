# shellcheck shell=sh
# The launcher runs this as `sh -c` in a container of the image on the first host (running/hosts.py). It exits with 0
# where the image has ssh and sshd.
PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin
command -v sshd && command -v ssh

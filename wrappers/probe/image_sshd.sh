# shellcheck shell=sh
# Runs in a container of the image on the first host, as `sh -c` (running/hosts.py): whether the image has ssh and sshd.
PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin
command -v sshd && command -v ssh

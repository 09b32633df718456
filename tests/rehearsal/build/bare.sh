#!/bin/sh
# sh, coreutils and an MPI: no openssh, no bash, and a user database that knows root alone.
set -eu
rm -f /usr/bin/ssh* /usr/bin/scp /usr/bin/sftp /usr/bin/slogin /usr/sbin/sshd /usr/bin/bash /usr/bin/rbash
rm -rf /etc/ssh /usr/lib/openssh
echo 'root:x:0:0:root:/root:/bin/sh' >/etc/passwd
echo 'root:x:0:' >/etc/group

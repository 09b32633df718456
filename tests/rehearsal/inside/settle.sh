#!/bin/sh
# settle.sh [GROUP...]: the rest of boot.sh, in the node's own root: mount the control groups of which
# this node has a part, as a machine has its own; let go of the machine's root; become the node's init.
set -eu

second() {
    mount -t cgroup2 cgroup /sys/fs/cgroup
    # What hands its controllers on must have no process itself.
    mkdir /sys/fs/cgroup/init
    echo 1 > /sys/fs/cgroup/init/cgroup.procs
}

first() {
    mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
    for group; do
        name=${group#/sys/fs/cgroup/}
        name=${name%%/*}
        mkdir "/sys/fs/cgroup/$name"
        case $name in
            systemd) mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd ;;
            *) mount -t cgroup -o "$name" cgroup "/sys/fs/cgroup/$name" ;;
        esac
        # `cpu,cpuacct` goes by either name, too.
        case $name in
            *,*) for alias in $(echo "$name" | tr , ' '); do ln -s "$name" "/sys/fs/cgroup/$alias"; done ;;
        esac
    done
}

case ${1-} in
    '') ;;
    /sys/fs/cgroup/mnrun.*) second ;;
    *) first "$@" ;;
esac
umount -l /.old
rmdir /.old
# As systemd leaves it on a real node; only nodes of this namespace are peers.
mount --make-rshared /
exec /usr/bin/tini -- /bin/sh /etc/rehearsal/rc.sh

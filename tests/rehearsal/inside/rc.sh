#!/bin/sh
# What a node starts, in order; the node ends when this does.
set -eu
# shellcheck source=/dev/null
. /etc/rehearsal/node
node=$(cat /etc/hostname)

ip link set lo up
ip address add "$ADDRESS/24" dev eth0
ip link set eth0 up
while read -r bridge net; do
    ip link add "$bridge" type bridge
    ip address add "$net" dev "$bridge"
    ip link set "$bridge" up
done < /etc/rehearsal/decoys

install -d -o munge -g munge /run/munge
install -d /run/sshd /run/lock
install -d -m 1777 /run/user
/usr/sbin/sshd
setpriv --reuid munge --regid munge --init-groups /usr/sbin/munged

wait_for() {
    for _ in $(seq 300); do
        if "$@" > /dev/null 2>&1; then return; fi
        sleep 0.1
    done
    echo "rc: gave up waiting for: $*" >&2
}

accounting() {
    install -d -o mysql -g mysql /run/mysqld /run/mariadbd
    # On a tmpfs there is no direct I/O, and speed matters more than surviving a power cut.
    setpriv --reuid mysql --regid mysql --init-groups /usr/sbin/mariadbd \
        --skip-networking --innodb-use-native-aio=0 --innodb-flush-method=fsync \
        --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M --performance-schema=0 \
        > /var/log/mariadb.log 2>&1 &
    wait_for mariadb-admin ping
    mariadb -e "CREATE DATABASE IF NOT EXISTS slurm_acct_db;
        GRANT ALL ON slurm_acct_db.* TO slurm@localhost IDENTIFIED BY 'rehearsal'"
    /usr/sbin/slurmdbd
    wait_for sacctmgr -n show cluster
    sacctmgr -i add cluster "$(sed -n 's/^ClusterName=//p' /etc/slurm/slurm.conf)" || true
}

scheduler=$(cat /etc/rehearsal/scheduler)
if [ "$scheduler" != slurm ]; then
    /bin/sh "/etc/rehearsal/$scheduler.sh" "$node"
elif [ "$node" = login ]; then
    if [ -s /etc/rehearsal/accounting ]; then accounting; fi
    /usr/sbin/slurmctld
else
    /usr/sbin/slurmd
fi
exec sleep infinity

#!/bin/sh
# Start Grid Engine's daemon of a node; the login node's has the configuration, which this hands to it.
set -eu
node=$1
conf=/etc/rehearsal/sge
# Debian's own are shell scripts, which set these and start the programs of this folder.
export SGE_ROOT=/var/lib/gridengine SGE_CELL=default SGE_ARCH=lx-amd64 PATH="/usr/lib/gridengine:$PATH"
install -d -o sgeadmin -g sgeadmin /run/gridengine

wait_for() {
    for _ in $(seq 300); do
        if "$@" > /dev/null 2>&1; then return; fi
        sleep 0.2
    done
    echo "sge: gave up waiting for: $*" >&2
}

if [ "$node" != login ]; then
    # A daemon of a host that is not known yet ends at once.
    wait_for qconf -sq all.q
    exec sge_execd
fi

changed() { # FILE: what stdin has, with the lines of the file in the place of those of the same name
    awk 'NR == FNR { new[$1] = $0; next } $1 in new { print new[$1]; delete new[$1]; next } { print }
        END { for (name in new) print new[name] }' "$1" -
}

sge_qmaster
wait_for qconf -sm
# It was configured before: the node was switched off and on.
if qconf -shgrp @allhosts > /dev/null 2>&1; then exit 0; fi
temporary=$(mktemp -d)
cd "$temporary"
qconf -sc | cat - "$conf/complexes" > complexes
SGE_SINGLE_LINE=1 qconf -sconf | changed "$conf/global" > global
qconf -ssconf | changed "$conf/scheduler" > scheduler
qconf -Mc complexes
qconf -Mconf global
qconf -Msconf scheduler
qconf -Au "$conf/usersets"
qconf -ah "$(paste -sd, "$conf/hosts")"
for host in "$conf"/host.*; do
    case $host in
        *.global) qconf -Me "$host" ;;
        *) qconf -Ae "$host" ;;
    esac
done
qconf -Ahgrp "$conf/hostgroup"
for pe in "$conf"/pe.*; do qconf -Ap "$pe"; done
for queue in "$conf"/queue.*; do qconf -Aq "$queue"; done
qconf -as "$(paste -sd, "$conf/submit")"
rm -r "$temporary"

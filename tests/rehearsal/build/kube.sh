#!/bin/sh
# Kubernetes for the cluster's nodes: its own programs as they were built, etcd and a newer kubectl from Debian 13, and
# the kubectl of Debian 12, which is as old as the server.
set -eu
export DEBIAN_FRONTEND=noninteractive
tar -C / --no-same-owner -xf /run/programs
apt-get -q update
apt-get -q install -y --no-install-recommends etcd-server kubectl
sed -n 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) [a-z]* main.*/deb \2 bookworm main/p' /etc/apt/sources.list | head -n 1 \
    > /etc/apt/sources.list.d/older.list
apt-get -q update
cd /tmp
apt-get -q download kubernetes-client/bookworm
dpkg -x kubernetes-client_*.deb older
install older/usr/bin/kubectl /usr/local/bin/kubectl-1.20
# A site that has Kubernetes has no Slurm beside it.
apt-get -q purge -y slurm-client
apt-get clean
rm -rf older ./*.deb /etc/apt/sources.list.d/older.list /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* \
    /usr/share/locale/*

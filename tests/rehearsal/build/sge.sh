#!/bin/sh
# Grid Engine for the cluster's nodes; its first host is the login node, as in every cluster.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install -y --no-install-recommends gridengine-master gridengine-exec gridengine-client
# A site that has Grid Engine has no Slurm beside it.
apt-get -q purge -y slurm-client
apt-get clean
rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* /usr/share/locale/*
echo login > /var/lib/gridengine/default/common/act_qmaster

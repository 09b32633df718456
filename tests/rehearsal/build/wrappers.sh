#!/bin/sh
# Slurm's own qsub, qstat, qdel and others: Perl scripts that call Slurm.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install -y --no-install-recommends slurm-wlm-torque
apt-get clean
rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* /usr/share/locale/*

#!/bin/sh
# Debian's own settings keep Open MPI 6 to the loopback, as its build machines want it; no site of several nodes has that.
set -eu
sed -i '/^btl_tcp_if_include *= *lo$/d' /etc/openmpi/openmpi-mca-params.conf

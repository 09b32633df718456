#!/bin/sh
# programs.sh MPICC PACKAGE…: compile the test programs against the tree's own MPI. The
# compiler is installed in a spare of the tree; only what goes to /out stays in it.
set -eu
export DEBIAN_FRONTEND=noninteractive
mpicc=$1
shift
apt-get -q update
apt-get -q install -y --no-install-recommends "$@"
mkdir -p /out/opt/mpi
for source in /programs/*.c; do
    name=${source##*/}
    "$mpicc" -O2 -Wall -o "/out/opt/mpi/${name%.c}" "$source"
done
# Debian's own mpi4py knows only Open MPI, so one is made where that is not the tree's.
if [ "$mpicc" = mpicc.mpich ]; then
    apt-get -q install -y --no-install-recommends python3-dev python3-pip python3-setuptools cython3
    place=/out$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    MPICC=$mpicc CFLAGS=-O0 pip -q install --no-build-isolation --no-binary :all: --no-deps \
        --target "$place" mpi4py==4.0.3
fi

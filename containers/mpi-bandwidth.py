# mpi_bandwidth, which measures the bandwidth between pairs of ranks, with Open MPI, InfiniBand's libraries and sshd.
#
#   base=debian:trixie    Debian or Ubuntu: an image of a registry, a SIF file, or a root file system
#   ofed=                 a version of NVIDIA's MLNX_OFED, such as 24.10-0.7.0.0. Without it, the base's rdma-core

image = {"image": USERARG["base"], "_bootstrap": USERARG["bootstrap"], "_docker_env": False, "_distro": "ubuntu24"}

Stage0 += baseimage(_as="build", **image)
Stage0 += packages(apt=["gcc", "libc6-dev", "libopenmpi-dev"])
Stage0 += copy(src="mpi_bandwidth.c", dest="/usr/local/src/mpi_bandwidth.c")
Stage0 += shell(commands=["mpicc -O2 -o /usr/local/bin/mpi_bandwidth /usr/local/src/mpi_bandwidth.c"])

Stage1 += baseimage(**image)
if USERARG["ofed"]:
    Stage1 += mlnx_ofed(version=USERARG["ofed"])
else:
    Stage1 += packages(apt=["ibverbs-providers", "libibverbs1", "librdmacm1"])
Stage1 += packages(apt=["openmpi-bin", "openssh-client", "openssh-server"])
Stage1 += copy(_from="build", src="/usr/local/bin/mpi_bandwidth", dest="/usr/local/bin/mpi_bandwidth")

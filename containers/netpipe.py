# NetPIPE, which measures latency and bandwidth between two ranks: NPopenmpi or NPmpich2, and sshd.
#
#   base=debian:trixie    Debian or Ubuntu: an image of a registry, a SIF file, or a root file system
#   mpi=openmpi           the MPI: openmpi or mpich

Stage0 += baseimage(image=USERARG["base"], _bootstrap=USERARG["bootstrap"], _docker_env=False, _distro="ubuntu24")
mpi = {"openmpi": ["netpipe-openmpi", "openmpi-bin"], "mpich": ["netpipe-mpich2", "mpich"]}[USERARG["mpi"]]
Stage0 += packages(apt=[*mpi, "openssh-client", "openssh-server"])

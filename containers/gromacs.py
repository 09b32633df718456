# GROMACS, a program for molecular dynamics (`gmx_mpi`), with Open MPI and sshd.
#
#   base=debian:trixie    Debian or Ubuntu: an image of a registry, a SIF file, or a root file system
#   ngc=                  a tag of NVIDIA's image of GROMACS for GPUs, such as 2023.2, which is then the base

ssh = ["openssh-client", "openssh-server"]

if USERARG["ngc"]:
    Stage0 += baseimage(image="nvcr.io/hpc/gromacs:" + USERARG["ngc"], _distro="ubuntu22")
    Stage0 += packages(apt=ssh)
else:
    Stage0 += baseimage(image=USERARG["base"], _bootstrap=USERARG["bootstrap"], _docker_env=False, _distro="ubuntu24")
    Stage0 += packages(apt=["gromacs", "openmpi-bin", *ssh])

# LAMMPS, a program for molecular dynamics (`lmp`), with Open MPI and sshd.
#
#   base=debian:trixie    Debian or Ubuntu: an image of a registry, a SIF file, or a root file system
#   ngc=                  a tag of NVIDIA's image of LAMMPS for GPUs, such as patch_15Jun2023, which is then the base

ssh = ["openssh-client", "openssh-server"]

if USERARG["ngc"]:
    Stage0 += baseimage(image="nvcr.io/hpc/lammps:" + USERARG["ngc"], _distro="ubuntu22")
    Stage0 += packages(apt=ssh)
else:
    Stage0 += baseimage(image=USERARG["base"], _bootstrap=USERARG["bootstrap"], _docker_env=False, _distro="ubuntu24")
    Stage0 += packages(apt=["lammps", "openmpi-bin", *ssh])

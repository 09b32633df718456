# HPC Challenge (`hpcc`): HPL, STREAM, PTRANS, RandomAccess, FFT and b_eff in one program, with Open MPI and sshd.
#
#   base=debian:trixie    Debian or Ubuntu: an image of a registry, a SIF file, or a root file system
#   ngc=                  a tag of NVIDIA's image of HPL and HPCG for GPUs, such as 24.09, which is then the base

ssh = ["openssh-client", "openssh-server"]

if USERARG["ngc"]:
    Stage0 += baseimage(image="nvcr.io/nvidia/hpc-benchmarks:" + USERARG["ngc"], _distro="ubuntu22")
    Stage0 += packages(apt=ssh)
else:
    Stage0 += baseimage(image=USERARG["base"], _bootstrap=USERARG["bootstrap"], _docker_env=False, _distro="ubuntu24")
    Stage0 += packages(apt=["hpcc", "openmpi-bin", *ssh])

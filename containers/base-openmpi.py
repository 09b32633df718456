# Open MPI 5 with PMIx and UCX, and sshd: the base of images with MPI programs.
#
#   base=debian:trixie    Debian 13 (Open MPI 5.0.7): an image of a registry, a SIF file, or a root file system
#   openmpi=              a version to build from source, such as 5.0.8, and not from the packages
#   ucx=1.18.0            the version of UCX for an Open MPI from source
#   cuda=                 a version of CUDA, such as 12.6.3: Open MPI 5.0.8 from source, on NVIDIA's image of that CUDA
#   packages=             more packages, separated by commas

release = USERARG["openmpi"] or ("5.0.8" if USERARG["cuda"] else "")
nvidia = "nvcr.io/nvidia/cuda:" + USERARG["cuda"]
runtime = {
    "image": nvidia + "-base-ubuntu24.04" if USERARG["cuda"] else USERARG["base"],
    "_bootstrap": "docker" if USERARG["cuda"] else USERARG["bootstrap"],
    "_docker_env": False,
    "_distro": "ubuntu24",
}
ssh = ["openssh-client", "openssh-server"]
more = list(filter(None, USERARG["packages"].split(",")))

if release:
    devel = dict(runtime, image=nvidia + "-devel-ubuntu24.04") if USERARG["cuda"] else runtime
    Stage0 += baseimage(_as="build", **devel)
    Stage0 += packages(apt=["gcc", "g++", "gfortran", "libibverbs-dev", "librdmacm-dev"])
    Stage0 += ucx(version=USERARG["ucx"], cuda=bool(USERARG["cuda"]))
    Stage0 += openmpi(
        version=release,
        cuda="/usr/local/cuda" if USERARG["cuda"] else False,
        infiniband=False,
        pmix="internal",
        ucx="/usr/local/ucx",
    )
    Stage1 += baseimage(**runtime)
    Stage1 += packages(apt=["libibverbs1", "librdmacm1", "ibverbs-providers", *ssh, *more])
    Stage1 += Stage0.runtime(_from="build")
else:
    Stage0 += baseimage(**runtime)
    Stage0 += packages(apt=["openmpi-bin", *ssh, *more])

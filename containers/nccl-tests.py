# NVIDIA's nccl-tests, which measure NCCL between GPUs, with Open MPI to start them on several nodes, and sshd.
#
#   cuda=12.6.3           a version of CUDA: the base is NVIDIA's image of it
#   nccl_tests=2.13.13    the version of nccl-tests

nvidia = "nvcr.io/nvidia/cuda:" + USERARG["cuda"]
mpi = "/usr/lib/x86_64-linux-gnu/openmpi"

Stage0 += baseimage(image=nvidia + "-devel-ubuntu24.04", _as="build", _distro="ubuntu24")
Stage0 += packages(apt=["ca-certificates", "g++", "libopenmpi-dev", "make", "wget"])
Stage0 += generic_build(
    url="https://github.com/NVIDIA/nccl-tests/archive/refs/tags/v" + USERARG["nccl_tests"] + ".tar.gz",
    directory="nccl-tests-" + USERARG["nccl_tests"],
    build=["make -j$(nproc) MPI=1 MPI_HOME=" + mpi + " CUDA_HOME=/usr/local/cuda"],
    install=["mkdir -p /usr/local/nccl-tests/bin", "cp build/*_perf /usr/local/nccl-tests/bin"],
    prefix="/usr/local/nccl-tests",
)

Stage1 += baseimage(image=nvidia + "-runtime-ubuntu24.04", _distro="ubuntu24")
Stage1 += packages(
    apt=["ibverbs-providers", "libibverbs1", "librdmacm1", "openmpi-bin", "openssh-client", "openssh-server"]
)
Stage1 += copy(_from="build", src="/usr/local/nccl-tests", dest="/usr/local/nccl-tests")
Stage1 += environment(variables={"PATH": "/usr/local/nccl-tests/bin:$PATH"})

# PyTorch for training on several nodes with DistributedDataParallel.
#
#   base=debian:trixie    Debian 13: an image of a registry, a SIF file, or a root file system
#   ngc=                  a tag of NVIDIA's image of PyTorch for GPUs, such as 25.01-py3, which is then the base

if USERARG["ngc"]:
    Stage0 += baseimage(image="nvcr.io/nvidia/pytorch:" + USERARG["ngc"], _distro="ubuntu24")
    Stage0 += packages(apt=["openssh-client", "openssh-server"])
else:
    Stage0 += baseimage(image=USERARG["base"], _bootstrap=USERARG["bootstrap"], _docker_env=False, _distro="ubuntu24")
    Stage0 += packages(apt=["python3-numpy", "python3-torch"])
    # Debian's PyTorch 2.6 is built without libuv, and asks for it without this. Its torchrun asks for it even so.
    Stage0 += environment(variables={"USE_LIBUV": "0"})

# Horovod with PyTorch, for training by ranks of MPI. It is compiled, since there is no package of it.
#
#   ngc=25.01-py3       a tag of NVIDIA's image of PyTorch, which is the base
#   horovod=0.28.1      the version of Horovod

Stage0 += baseimage(image="nvcr.io/nvidia/pytorch:" + USERARG["ngc"], _distro="ubuntu24")
Stage0 += packages(apt=["cmake", "g++", "openssh-client", "openssh-server"])
Stage0 += shell(
    commands=[
        "HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_WITH_MPI=1 HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_GLOO=1 "
        "pip install --no-cache-dir --no-build-isolation horovod==" + USERARG["horovod"],
    ]
)

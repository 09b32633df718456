"""Messages of CUDA, and of what brings a GPU into a container."""

from __future__ import annotations

from mnrun.diagnosis.entry import Entry

ENTRIES = (
    Entry(
        name="cuda-driver-version",
        pattern=r"CUDA driver version is insufficient for CUDA runtime version",
        # a program whose CUDA runtime finds no libcuda says the same (seen with CUDA 13.0)
        cause="the rank sees no NVIDIA driver, or one too old for the image's CUDA",
        remedy="mnrun check shows each node's driver; leave --no-gpu out, or take an image with an older CUDA",
        anchor="gpu-driver",
    ),
    Entry(
        name="torch-driver-version",
        pattern=r"RuntimeError: The NVIDIA driver on your system is too old \(found version \d+\)",
        cause="the node's NVIDIA driver is too old for the image's CUDA",
        remedy="take an image with an older CUDA, or nodes with a newer driver",
        anchor="gpu-driver",
    ),
    Entry(
        name="torch-no-driver",
        pattern=r"RuntimeError: Found no NVIDIA driver on your system",
        cause="the rank sees no NVIDIA driver",
        remedy="ask for GPUs with --gres gpu:N or --gpus-per-node, and look at mnrun check",
        anchor="no-gpu-in-the-container",
    ),
    Entry(
        name="cuda-no-device",
        pattern=r"no CUDA-capable device is detected|^RuntimeError: No CUDA GPUs are available",
        cause="the rank sees no GPU",
        remedy="ask for GPUs with --gres gpu:N or --gpus-per-node, and look at CUDA_VISIBLE_DEVICES in the rank",
        anchor="no-gpu-in-the-container",
    ),
    Entry(
        name="nccl-same-gpu",
        pattern=r"Duplicate GPU detected ?: rank \d+ and rank \d+ both on CUDA device",
        cause="two ranks use the same GPU, which NCCL refuses",
        remedy="start one rank for each GPU, and choose it by LOCAL_RANK or --gpu-bind per_task:1",
        anchor="two-ranks-on-one-gpu",
    ),
    Entry(
        name="cuda-library",
        pattern=r"^(?:OSError|ImportError): libcuda\.so\.1: cannot open shared object file",
        cause="the rank sees no NVIDIA driver",
        remedy="ask for GPUs with --gres gpu:N or --gpus-per-node, and look at mnrun check",
        anchor="no-gpu-in-the-container",
    ),
    Entry(
        name="docker-gpu",
        pattern=r'could not select device driver "" with capabilities: \[\[gpu\]\]',
        cause="dockerd on the node cannot hand out GPUs",
        remedy="an administrator installs nvidia-container-toolkit, or --runtime apptainer runs it",
        anchor="no-gpu-in-the-container",
    ),
    Entry(
        name="cuda-memory",
        pattern=r"^(?:torch\.(?:cuda\.)?OutOfMemoryError|RuntimeError): CUDA out of memory\. Tried to",
        cause="the memory of a GPU is used up",
        remedy="use smaller batches, or more GPUs",
        anchor="gpu-memory",
    ),
    Entry(
        name="cuda-kernel-image",
        pattern=r"CUDA error: no kernel image is available for execution on the device",
        cause="the image's CUDA code was not built for this type of GPU",
        remedy="take an image that was built for it, or other nodes with -C",
        anchor="gpu-type",
    ),
    Entry(
        name="torch-without-cuda",
        pattern=r"^AssertionError: Torch not compiled with CUDA enabled",
        cause="the image's PyTorch was built without CUDA",
        remedy="take an image whose PyTorch has CUDA",
        anchor="pytorch-without-a-part",
    ),
    Entry(
        name="torch-without-backend",
        pattern=r"^RuntimeError: Distributed package doesn't have (?P<backend>NCCL|MPI) built in",
        cause="the image's PyTorch was built without {backend}",
        remedy="take another image, or another backend, for example gloo",
        anchor="pytorch-without-a-part",
    ),
)

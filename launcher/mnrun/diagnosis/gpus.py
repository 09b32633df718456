"""Messages of CUDA, and of what brings a GPU into a container."""

from __future__ import annotations

from mnrun.messages import Entry

# fmt: off
ENTRIES = (
    Entry("cuda-driver-version", "gpu-driver",
          # a program whose CUDA runtime finds no libcuda says the same (seen with CUDA 13.0)
          r"CUDA driver version is insufficient for CUDA runtime version",
          "the rank sees no NVIDIA driver, or one too old for the image's CUDA",
          "mnrun check shows each node's driver; leave --no-gpu out, or take an image with an older CUDA"),
    Entry("torch-driver-version", "gpu-driver",
          r"RuntimeError: The NVIDIA driver on your system is too old \(found version \d+\)",
          "the node's NVIDIA driver is too old for the image's CUDA",
          "take an image with an older CUDA, or nodes with a newer driver"),
    Entry("torch-no-driver", "no-gpu-in-the-container",
          r"RuntimeError: Found no NVIDIA driver on your system",
          "the rank sees no NVIDIA driver",
          "ask for GPUs with --gres gpu:N or --gpus-per-node, and look at mnrun check"),
    Entry("cuda-no-device", "no-gpu-in-the-container",
          r"no CUDA-capable device is detected|^RuntimeError: No CUDA GPUs are available",
          "the rank sees no GPU",
          "ask for GPUs with --gres gpu:N or --gpus-per-node, and look at CUDA_VISIBLE_DEVICES in the rank"),
    Entry("nccl-same-gpu", "two-ranks-on-one-gpu",
          r"Duplicate GPU detected ?: rank \d+ and rank \d+ both on CUDA device",
          "two ranks use the same GPU, which NCCL refuses",
          "start one rank for each GPU, and choose it by LOCAL_RANK or --gpu-bind per_task:1"),
    Entry("cuda-library", "no-gpu-in-the-container",
          r"^(?:OSError|ImportError): libcuda\.so\.1: cannot open shared object file",
          "the rank sees no NVIDIA driver",
          "ask for GPUs with --gres gpu:N or --gpus-per-node, and look at mnrun check"),
    Entry("docker-gpu", "no-gpu-in-the-container",
          r'could not select device driver "" with capabilities: \[\[gpu\]\]',
          "dockerd on the node cannot hand out GPUs",
          "an administrator installs nvidia-container-toolkit, or --runtime apptainer runs it"),
    Entry("cuda-memory", "gpu-memory",
          r"^(?:torch\.(?:cuda\.)?OutOfMemoryError|RuntimeError): CUDA out of memory\. Tried to",
          "the memory of a GPU is used up",
          "use smaller batches, or more GPUs"),
    Entry("cuda-kernel-image", "gpu-type",
          r"CUDA error: no kernel image is available for execution on the device",
          "the image's CUDA code was not built for this type of GPU",
          "take an image that was built for it, or other nodes with -C"),
    Entry("torch-without-cuda", "pytorch-without-a-part",
          r"^AssertionError: Torch not compiled with CUDA enabled",
          "the image's PyTorch was built without CUDA",
          "take an image whose PyTorch has CUDA"),
    Entry("torch-without-backend", "pytorch-without-a-part",
          r"^RuntimeError: Distributed package doesn't have (?P<backend>NCCL|MPI) built in",
          "the image's PyTorch was built without {backend}",
          "take another image, or another backend, for example gloo"),
)
# fmt: on

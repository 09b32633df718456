"""Learn to read 5,000 handwritten digits with PyTorch's DistributedDataParallel: digits.py mnist_5k.csv.gz

Each rank learns from a part of the first 4,000 digits. Rank 0 says how many of the others are read right.
"""

import os
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn  # before init_process_group: ddp.py has the reason
from torch.nn.parallel import DistributedDataParallel

TRAINED, BATCH, EPOCHS = 4000, 50, 4


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpu else "gloo")
    learn(device)
    dist.destroy_process_group()


def learn(device: torch.device) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()

    table = torch.from_numpy(np.loadtxt(sys.argv[1], delimiter=",", dtype=np.float32))
    table = table[torch.randperm(len(table))].to(device)  # in the same order on each rank
    pixels, digits = table[:, :-1] / 255, table[:, -1].long()
    mine = slice(rank, TRAINED, size)

    model = torch.nn.Sequential(torch.nn.Linear(784, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10)).to(device)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9)
    for _ in range(EPOCHS):
        for x, y in zip(pixels[mine].split(BATCH), digits[mine].split(BATCH)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(parallel(x), y).backward()
            optimizer.step()

    if rank == 0:
        right = (model(pixels[TRAINED:]).argmax(1) == digits[TRAINED:]).float().mean().item()
        print(f"{size} ranks read {right:.1%} of {len(digits) - TRAINED} digits right; at least 85 %: {right >= 0.85}")


if __name__ == "__main__":
    main()

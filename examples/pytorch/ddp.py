"""PyTorch's DistributedDataParallel on CPUs: every rank learns the same line from points of its own.

mnrun -N 4 --ntasks-per-node 2 --image torch.sif --launcher env -- python3 ddp.py
mnrun -N 4 --ntasks-per-node 2 --image torch.sif --launcher torchrun -- ddp.py
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.nn  # before init_process_group: main() has the reason
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    torch.set_num_threads(1)
    # RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say the rest; on GPUs: "nccl", and torch.cuda.set_device(LOCAL_RANK)
    dist.init_process_group("gloo")
    train()
    # A thread of Gloo's that outlives Python aborts it now and then (PyTorch #190489). The threads end here if nothing
    # else holds the group: no DistributedDataParallel, and no torch.distributed.nn, which keeps that of its import.
    dist.destroy_process_group()


def train() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    x = torch.rand(64, 1)
    y = 3 * x - 1

    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(300):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    learnt = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everyones = [torch.zeros_like(learnt) for _ in range(size)]
    dist.all_gather(everyones, learnt)
    same = all(torch.equal(learnt, other) for other in everyones)
    place = f"rank {rank} of {size} on {os.uname().nodename}, local rank {os.environ['LOCAL_RANK']}"
    sys.stdout.write(f"{place}: {learnt.tolist()}\n")  # in one piece, which torchrun's unbuffered print() is not
    if rank == 0:
        print(f"y = {learnt[0]:.2f} x {learnt[1]:+.2f}, the same on every rank: {same}")


if __name__ == "__main__":
    main()

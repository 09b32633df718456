"""Learn to read handwritten digits with Horovod, one rank on each GPU: digits.py mnist_5k.csv.gz"""

import sys

import horovod.torch as hvd
import numpy as np
import torch

TRAINED, BATCH, EPOCHS = 4000, 50, 4


def main() -> None:
    hvd.init()
    torch.manual_seed(1)
    torch.cuda.set_device(hvd.local_rank())
    table = torch.from_numpy(np.loadtxt(sys.argv[1], delimiter=",", dtype=np.float32))
    table = table[torch.randperm(len(table))].cuda()  # in the same order on each rank
    pixels, digits = table[:, :-1] / 255, table[:, -1].long()
    mine = slice(hvd.rank(), TRAINED, hvd.size())

    model = torch.nn.Sequential(torch.nn.Linear(784, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for _ in range(EPOCHS):
        for x, y in zip(pixels[mine].split(BATCH), digits[mine].split(BATCH)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    if hvd.rank() == 0:
        right = (model(pixels[TRAINED:]).argmax(1) == digits[TRAINED:]).float().mean().item()
        print(f"{hvd.size()} ranks read {right:.1%} of {len(digits) - TRAINED} digits right")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""lines.py N: each rank writes N lines of 55 bytes to standard output, and one to standard error."""

import sys

from mpi4py import MPI

rank = MPI.COMM_WORLD.Get_rank()
for number in range(int(sys.argv[1])):
    sys.stdout.write(f"rank {rank} line {number:042d}\n")
sys.stdout.flush()
print(f"rank {rank} is done", file=sys.stderr, flush=True)
MPI.COMM_WORLD.Barrier()

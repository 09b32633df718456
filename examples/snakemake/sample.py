"""Estimate pi by random points on all ranks, and write it to a file: sample.py SEED FILE."""

import random
import sys
from pathlib import Path

from mpi4py import MPI

POINTS = 20_000  # of each rank

comm = MPI.COMM_WORLD
points = random.Random(f"{sys.argv[1]} {comm.rank}")
inside = sum(points.random() ** 2 + points.random() ** 2 < 1 for _ in range(POINTS))
total = comm.reduce(inside)
if comm.rank == 0:
    Path(sys.argv[2]).write_text(f"{4 * total / POINTS / comm.size}\n")

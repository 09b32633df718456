"""Print this rank, its node, and the sum of the numbers of all ranks."""

import os
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
total = comm.allreduce(comm.rank)
sys.stdout.write(f"rank {comm.rank} of {comm.size} on {os.uname().nodename}: the sum is {total}\n")

"""Add up a series on all ranks, and print the seconds that it took."""

from mpi4py import MPI

TERMS = 6_000_000

comm = MPI.COMM_WORLD
comm.Barrier()
begin = MPI.Wtime()
total = comm.allreduce(sum(1 / (term * term) for term in range(1 + comm.rank, TERMS + 1, comm.size)))
if comm.rank == 0:
    print(f"{MPI.Wtime() - begin:.3f}")

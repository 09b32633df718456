"""How fast pairs of ranks send to each other, all pairs at once: best, average and worst of 100 kB to 1 MB.

mnrun -N 4 --ntasks-per-node 1 --image mpi.sif -- python3 bandwidth.py    # the image has mpi4py

Rank 0 is paired with the first rank of the second half, and so on: where ranks fill node after node, each pair is
on two nodes. A message goes there and back; MB/s are those of one way.
"""

import sys

from mpi4py import MPI

SIZES = (100_000, 200_000, 400_000, 700_000, 1_000_000)
WARM, ROUNDS = 2, 20


def exchange(comm: MPI.Intracomm, other: int, first: bool, message: bytearray) -> float:
    """MB/s of one message to `other` and one back."""
    begin = MPI.Wtime()
    for sending in (first, not first):
        if sending:
            comm.Send([message, MPI.BYTE], dest=other)
        else:
            comm.Recv([message, MPI.BYTE], source=other)
    return 2 * len(message) / (MPI.Wtime() - begin) / 1e6


def main() -> None:
    comm = MPI.COMM_WORLD
    rank, half = comm.rank, comm.size // 2
    if comm.size < 2 or comm.size % 2:
        sys.exit(f"an even number of ranks is needed, and there are {comm.size}" if rank == 0 else 1)
    first = rank < half
    other = rank + half if first else rank - half
    hosts = comm.gather(MPI.Get_processor_name())
    if rank == 0:
        apart = sum(hosts[pair] != hosts[pair + half] for pair in range(half))
        print(f"{half} pairs, {apart} of them on two nodes; {ROUNDS} rounds; MB/s")
        print(f"{'bytes':>9} {'best':>9} {'average':>9} {'worst':>9}")
    for size in SIZES:
        message = bytearray(size)
        comm.Barrier()
        speeds = [exchange(comm, other, first, message) for _ in range(WARM + ROUNDS)][WARM:]
        found = comm.gather(speeds if first else [])
        if rank == 0:
            every = [speed for pair in found for speed in pair]
            print(f"{size:>9} {max(every):>9.1f} {sum(every) / len(every):>9.1f} {min(every):>9.1f}", flush=True)


if __name__ == "__main__":
    main()

"""Let heat spread in a rod. Each rank has a part of it, and exchanges the ends with its neighbours in every step."""

from mpi4py import MPI

CELLS, STEPS, SPEED = 1000, 500, 0.4


def part(rank: int, size: int) -> range:
    """Return the cells of a rank."""
    return range(CELLS * rank // size, CELLS * (rank + 1) // size)


def step(comm: MPI.Intracomm, heat: list[float]) -> list[float]:
    """Return the heat of this part after one step. At both ends of the rod nothing flows."""
    left = comm.rank - 1 if comm.rank else MPI.PROC_NULL
    right = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    after = comm.sendrecv(heat[0], dest=left, source=right)
    before = comm.sendrecv(heat[-1], dest=right, source=left)
    padded = [heat[0] if before is None else before, *heat, heat[-1] if after is None else after]
    return [here + SPEED * (west - 2 * here + east) for west, here, east in zip(padded, padded[1:], padded[2:])]


def main() -> None:
    comm = MPI.COMM_WORLD
    cells = part(comm.rank, comm.size)
    heat = [100.0 if CELLS // 2 - 50 <= cell < CELLS // 2 + 50 else 0.0 for cell in cells]
    for _ in range(STEPS):
        heat = step(comm, heat)
    total, hottest = comm.reduce(sum(heat)), comm.reduce(max(heat), MPI.MAX)
    nodes = comm.gather(MPI.Get_processor_name())
    if comm.rank == 0:
        print(f"ranks {comm.size}, nodes {len(set(nodes))}: heat {total:.3f} in all, {hottest:.3f} at most")


if __name__ == "__main__":
    main()

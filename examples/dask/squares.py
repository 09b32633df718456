"""Add up squares on Dask's workers: squares.py ADDRESS has a scheduler; squares.py alone gets workers from Slurm."""

import os
import sys

from distributed import Client


def place() -> str:
    return os.uname().nodename


def square(number: int) -> int:
    return number**2


def work(client: Client, workers: int) -> None:
    """Print the sum, and the nodes of the workers."""
    client.wait_for_workers(workers)
    nodes = list(client.run(place).values())
    total = client.submit(sum, client.map(square, range(1000))).result()
    print(f"the squares of 0 to 999 add up to {total}; {len(nodes)} workers on {', '.join(sorted(set(nodes)))}")


def main() -> None:
    if len(sys.argv) > 1:
        with Client(sys.argv[1]) as client:
            work(client, int(os.environ["WORLD_SIZE"]) - 1)
            client.shutdown()
        return
    from jobs import cluster_of_jobs

    with cluster_of_jobs(jobs=2, nodes=2, image="dask.sif", quiet=True) as cluster, Client(cluster) as client:
        work(client, 4)


if __name__ == "__main__":
    main()

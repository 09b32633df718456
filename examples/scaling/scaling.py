"""Run a program on more and more nodes of this allocation: scaling.py [--plot FILE.svg] NODES…

It prints a table of times and speed-ups. The plot needs matplotlib.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mnrun import Job


def seconds(nodes: int) -> float:
    """Return the time that the program says it took."""
    output = Path(f"{nodes}.out")
    code = Job(["python3", "sums.py"], image="mpi.sif", nodes=nodes, output=str(output), quiet=True).run()
    if code:
        raise SystemExit(f"the run on {nodes} nodes failed with {code}: see {output}")
    return float(output.read_text().split()[-1])


def plot(speedup: dict[int, float], file: str) -> None:
    """Draw the speed-up over the nodes, and the line of a perfect one."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    pyplot.plot(list(speedup), list(speedup), "--", color="grey", label="perfect")
    pyplot.plot(list(speedup), list(speedup.values()), "o-", label="measured")
    pyplot.xlabel("nodes")
    pyplot.ylabel("speed-up")
    pyplot.legend()
    pyplot.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("nodes", type=int, nargs="+", metavar="NODES")
    parser.add_argument("--plot", metavar="FILE.svg")
    given = parser.parse_args()
    times = {nodes: seconds(nodes) for nodes in given.nodes}
    first = min(times)
    speedup = {nodes: first * times[first] / time for nodes, time in times.items()}
    print(f"{'nodes':>5} {'seconds':>8} {'speed-up':>9} {'efficiency':>11}")
    for nodes, time in times.items():
        print(f"{nodes:>5} {time:>8.3f} {speedup[nodes]:>9.2f} {speedup[nodes] / nodes:>11.0%}")
    if given.plot:
        plot(speedup, given.plot)


if __name__ == "__main__":
    main()

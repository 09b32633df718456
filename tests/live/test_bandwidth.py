"""The example of pairs that send to each other: the same table with no container, and in both modes."""

from __future__ import annotations

import re

from .cells import INSIDE, MPIRUN, OMPI5
from .stage import TOP, Cluster, Desk, Result

PACKAGE = "/usr/lib/python3/dist-packages/mpi4py"  # where Debian has it


def speeds(result: Result) -> dict[int, list[float]]:
    assert result.code == 0, result
    first, header, *rows = result.out.splitlines()
    assert first == "2 pairs, 2 of them on two nodes; 20 rounds; MB/s", result
    assert header.split() == ["bytes", "best", "average", "worst"], result
    assert all(re.fullmatch(r" *\d+( +\d+\.\d){3}", row) for row in rows), result
    return {int(row.split()[0]): [float(word) for word in row.split()[1:]] for row in rows}


def test_bandwidth(cluster: Cluster, desk: Desk) -> None:
    """100 kB to 1 MB; how fast is no matter on nodes that share two cores."""
    program = desk.put("bandwidth.py", (TOP / "examples/bandwidth/bandwidth.py").read_bytes())
    copied = cluster.alice(["apptainer", "-q", "exec", OMPI5, "cp", "-r", PACKAGE, desk.path], node="node01")
    assert copied.code == 0, copied
    salloc = ["salloc", "-Q", "-N4", "--ntasks-per-node=1", "env", f"PYTHONPATH={desk.path}"]
    bare = cluster.alice([*salloc, "mpirun", "-x", "PYTHONPATH", "python3", program])
    cluster.clean_after_mpirun()
    plain = speeds(bare)
    print(f"bare\n{bare.out}")
    assert list(plain) == [100_000, 200_000, 400_000, 700_000, 1_000_000]
    for way in (INSIDE, MPIRUN):
        result = cluster.mnrun(*way.words, "--", "python3", program, tasks=1)
        print(f"{way}\n{result.out}")
        found = speeds(result)
        assert list(found) == list(plain)
        for best, average, worst in found.values():
            assert best >= average >= worst > 0, result

"""Exit codes: the program's own, untouched, whatever the starter makes of them."""

from __future__ import annotations

import pytest

from .cells import HELLO, MAIN, SSH, WAYS, Way, cells, possible, turn
from .reports import check, ranks
from .stage import Cluster, Desk

# What the program does, and how mnrun must end.
ENDS: dict[str, tuple[tuple[str, ...], int]] = {
    "0": ((HELLO,), 0),
    "1": ((HELLO, "-x", "1"), 1),
    "7": ((HELLO, "-x", "7"), 7),
    "137": ((HELLO, "-x", "137"), 137),
    "SIGKILL": ((HELLO, "-k", "9"), 137),
    "SIGSEGV": ((HELLO, "-k", "11"), 139),
    "SIGTERM": ((HELLO, "-k", "15"), 143),
    "all 3": (("sh", "-c", "exit 3"), 3),
    "all SIGKILL": (("sh", "-c", "kill -9 $$"), 137),
    "not found": (("no-such-program",), 127),
    "not there": (("/no/such/program", "with words"), 127),
    "not executable": (("/etc/passwd",), 126),
    "a folder": (("/etc",), 126),
}
OPEN_MPI = tuple(way for way in WAYS if way.image != "mpich")
MATRIX = cells(
    {
        "end": tuple(ENDS),
        "start": ("inside", "mpirun", "srun"),
        "image": ("ompi5", "ompi4", "host"),  # Hydra says 9 and 11 of ranks that a signal ended
        "per": ("auto", "rank"),
    },
    lambda end, start, image, per: possible(start, image, per),
    # what starters spell in ways of their own
    always=[("SIGKILL", start, "ompi5", "auto") for start in ("inside", "mpirun", "srun")],
    together=1,
)


@pytest.mark.parametrize(("end", "start", "image", "per"), MATRIX)
def test_exit_code_is_the_programs(cluster: Cluster, end: str, start: str, image: str, per: str) -> None:
    """0, any code, 128+n for a signal, 127 not found, 126 not executable."""
    words, code = ENDS[end]
    result = cluster.mnrun(*Way(start, image, per).words, "--", *words, nodes=2)
    assert result.code == code, result
    assert "Traceback" not in result.err, result
    if words[0] == HELLO and code != 139:  # Open MPI writes some of its backtrace to standard output
        assert [rank.rank for rank in ranks(result)] == [0, 1, 2, 3], result


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("way", turn(1, OPEN_MPI, [SSH], MAIN), ids=str)
def test_exit_of_one_rank_ends_the_others(cluster: Cluster, desk: Desk, way: Way, rank: int) -> None:
    """A rank that fails ends the job on every node at once, with its code: whichever of its node's it is, and
    though no MPI is there to notice. The others would sleep for an hour, one of them in the same container."""
    one = f'[ "${{OMPI_COMM_WORLD_RANK-$PMIX_RANK}}" = {rank} ]'
    program = desk.put(f"uneven.{rank}", f"#!/bin/sh\n{one} || exec sleep 3600\nexit 9\n", 0o755)
    result = cluster.mnrun(*way.words, "--", program, nodes=2)
    assert result.code == 9, result


@pytest.mark.parametrize("way", turn(2, [way for way in OPEN_MPI if way.image != "host"], [], MAIN), ids=str)
def test_exit_code_of_an_mpi_abort(cluster: Cluster, way: Way) -> None:
    code = "from mpi4py import MPI; w = MPI.COMM_WORLD; w.rank == 1 and w.Abort(11); w.Barrier()"
    result = cluster.mnrun(*way.words, "--", "python3", "-c", code, nodes=2, tasks=1)
    assert result.code == 11, result


def test_exit_code_0_is_kept_with_noise(cluster: Cluster) -> None:
    result = cluster.mnrun(*Way("inside", "ompi5").words, "--", "sh", "-c", f"seq 1000 >&2; exec {HELLO}", nodes=2)
    check(result, "node01", "node02")
    assert result.err.splitlines().count("1000") == 4, result


@pytest.mark.parametrize("way", [Way("inside", "host"), Way("mpirun", "host")], ids=str)
def test_exit_code_of_a_rank_that_ends_while_mpirun_starts_others(cluster: Cluster, way: Way) -> None:
    """Open MPI 5 would kill its own process group, which a rank of the first node leaves half a second late here."""
    late = "strace -D -f -q -o /dev/null -e trace=setpgid -e inject=setpgid:delay_enter=500000"
    place, first = "/usr/local/bin/mpirun", cluster.nodes[0]
    cluster.put(place, f'#!/bin/sh\nexec {late} /usr/bin/mpirun "$@"\n', 0o755, first)
    try:
        result = cluster.mnrun(*way.words, "--", "sh", "-c", "exit 3", nodes=2)
    finally:
        cluster.root(first, "rm", place)
    assert result.code == 3, result
    assert "exited with 3" in result.err, result

"""The pure parts of scripts/bench: which ways it runs, and what it makes of their costs."""

from __future__ import annotations

from typing import Any

import pytest

from bench import meter, page
from bench.cli import main
from bench.ways import IMAGES, Size, of_cluster, of_machine, of_user

SIZE = Size(4, 2)
PARTS = ("wall", "teardown", "cpu", "login_cpu", "forks", "login_forks", "machine_cpu", "machine_forks")


def costs(wall: float, cpu: float, forks: int) -> dict[str, list[float]]:
    values = {**dict.fromkeys(PARTS, 0.0), "wall": wall, "cpu": cpu, "forks": forks}
    return {part: [value * 3, value, value / 2] for part, value in values.items()}


def found(**more: dict[str, list[float]]) -> dict[str, Any]:
    """A run of the bench at one size: the least takes 2 s, 4 s of CPU and 400 forks."""
    least = {"bare mpirun": costs(1.5, 3, 240), "one container per node": costs(0.5, 1, 160)}
    size = {"nodes": 4, "ranks": 2, "place": "cluster", "idle": {"cpu": 0.01, "forks": 0.5}, "ways": {**least, **more}}
    facts = dict.fromkeys(("date", "commit", "cores", "kernel", "slurm", "openmpi", "apptainer"), "1.2")
    return {"machine": facts, "runtime": "apptainer", "sizes": [size]}


def test_numbers_of_processes_come_round() -> None:
    assert meter.forks_between(1000, 1001) == 0
    assert meter.forks_between(1000, 1043) == 42
    assert meter.forks_between(32700, 310, limit=32768) == 77


def test_ratios_are_to_the_sum_of_the_least() -> None:
    least, _, _, mnrun = page.rows(found(**{"mnrun, pipe": costs(3, 5, 600)})["sizes"][0], "apptainer")
    assert (least.wall, least.cpu, least.forks) == (2.0, 4.0, 100.0)
    assert (mnrun.wall_ratio, mnrun.cpu_ratio, mnrun.forks) == (1.5, 1.25, 150.0)
    assert mnrun.target.wall == 1.25


def test_the_table_has_result_and_target() -> None:
    table = page.tables([found(**{"mnrun, pipe": costs(3, 5, 600)})])
    assert "| mnrun, pipe | 1.50 (3.00 s) | 1.25 | 1.25 (5.00 s) | 1.30 | 150 | 40 | 0.00 s |" in table
    assert "### 4 nodes, 2 ranks on each" in table
    assert "Medians of 3," in table


def test_the_table_has_what_was_before() -> None:
    now = found(**{"mnrun, pipe": costs(3, 5, 600), "mnrun, ssh": costs(4, 6, 800)})
    table = page.tables([now], [found(**{"mnrun, pipe": costs(6, 8, 1200)})])
    assert (
        "| mnrun, pipe | 1.50 (3.00 s) | 3.00 | 1.25 | 1.25 (5.00 s) | 2.00 | 1.30 | 150 | 300 | 40 | 0.00 s |" in table
    )
    assert "| mnrun, ssh | 2.00 (4.00 s) |  | 1.50 |" in table


@pytest.mark.parametrize("runtime", IMAGES)
def test_every_runtime_has_a_least(runtime: str) -> None:
    for ways in (of_cluster(SIZE, runtime), of_machine(SIZE, runtime)):
        assert [way.ranks for way in ways if way.least] == [True, False]
        assert len({way.name for way in ways}) == len(ways)


def test_a_line_of_the_users_own() -> None:
    line = "by script=env A=${HOME} ./run -N {nodes} -n {ranks} {ranks_per_node} '{image} x' {program}"
    program, none = of_user([line, "empty=srun true"], SIZE)
    assert program.words == (
        "env",
        "A=${HOME}",
        "./run",
        "-N",
        "4",
        "-n",
        "8",
        "2",
        "/images/ompi5.sif x",
        "/opt/mpi/hello",
    )
    assert (program.name, program.ranks, program.place) == ("by script", True, "job")
    assert not none.ranks


@pytest.mark.parametrize(
    "words",
    [
        ["--way", "x"],
        ["--way", "=srun"],
        ["--way", "x= "],
        ["--way", "a|b=srun"],
        ["--way", "x=srun 'a"],
        ["--way", "x=srun {node}"],
        ["--way", "bare srun=srun"],
        ["--way", "x=srun", "--way", "x=mpirun"],
        ["--way", "x=srun", "--storage", "25"],
    ],
)
def test_a_bad_line_of_the_users_own_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_table_has_a_line_of_the_users_own() -> None:
    assert "| pyxis | 1.50 (3.00 s) |  | 1.25 (5.00 s) |  | 150 |  | 0.00 s |" in page.tables(
        [found(pyxis=costs(3, 5, 600))]
    )

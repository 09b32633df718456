"""The pure parts of scripts/bench: which ways it runs, and what it makes of their costs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench import cli, machine, meter, page, plot
from bench.ways import IMAGES, Size, chosen, of_cluster, of_machine

SIZE = Size(4, 2)
PARTS = ("wall", "teardown", "cpu", "login_cpu", "forks", "login_forks", "machine_cpu", "machine_forks")


def costs(wall: float, cpu: float, forks: int) -> dict[str, list[float]]:
    """Three runs, of which the median is what was given."""
    values = {**dict.fromkeys(PARTS, 0.0), "wall": wall, "cpu": cpu, "forks": forks}
    return {part: [value * 3, value, value / 2] for part, value in values.items()}


def found(**more: dict[str, list[float]]) -> dict[str, Any]:
    """A run of the bench at one size: the least takes 2 s, 4 s of CPU and 400 forks."""
    least = {"bare mpirun": costs(1.5, 3, 240), "one container per node": costs(0.5, 1, 160)}
    size = {"nodes": 4, "ranks": 2, "place": "cluster", "idle": {"cpu": 0.01, "forks": 0.5}, "ways": {**least, **more}}
    facts = dict.fromkeys(("date", "commit", "cores", "kernel", "slurm", "openmpi", "apptainer"), "1.2")
    return {"machine": facts, "runtime": "apptainer", "sizes": [size]}


def test_numbers_of_processes_come_round() -> None:
    """The meter's own process is none of those between."""
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
    """Of the same size and the same way; others have an empty cell."""
    now = found(**{"mnrun, pipe": costs(3, 5, 600), "mnrun, ssh": costs(4, 6, 800)})
    table = page.tables([now], [found(**{"mnrun, pipe": costs(6, 8, 1200)})])
    assert (
        "| mnrun, pipe | 1.50 (3.00 s) | 3.00 | 1.25 | 1.25 (5.00 s) | 2.00 | 1.30 | 150 | 300 | 40 | 0.00 s |" in table
    )
    assert "| mnrun, ssh | 2.00 (4.00 s) |  | 1.50 |" in table


def test_the_plot_is_one_image_without_outside_files() -> None:
    text = plot.svg([found(**{"mnrun, <pipe>": costs(3, 5, 600)})])
    words = [element.text for element in ElementTree.fromstring(text).iter() if element.text]
    assert "mnrun, <pipe>" in words
    assert "1.50" in words
    assert "href" not in text


def test_the_json_is_read_as_it_was_written() -> None:
    """Each list is on one line."""
    run = found()
    assert json.loads(page.text(run)) == run
    assert '"wall": [4.5, 1.5, 0.75],' in page.text(run)


@pytest.mark.parametrize("runtime", IMAGES)
def test_every_runtime_has_a_least(runtime: str) -> None:
    for ways in (of_cluster(SIZE, runtime), of_machine(SIZE, runtime)):
        assert [way.ranks for way in ways if way.least] == [True, False]
        assert len({way.name for way in ways}) == len(ways)


def test_ways_are_chosen_by_a_part_of_their_name() -> None:
    """The least stays, since all else is compared with it."""
    names = [way.name for way in chosen(of_cluster(SIZE), ["ssh"])]
    assert names == ["bare mpirun", "one container per node", "mnrun, ssh"]


def test_a_size_is_nodes_by_ranks() -> None:
    assert cli.size("16x2") == Size(16, 2)
    with pytest.raises(argparse.ArgumentTypeError, match="'16' is no size: write NODESxRANKS, as 16x2"):
        cli.size("16")


def test_versions_of_programs() -> None:
    assert machine.version("mpirun (Open MPI) 5.0.7\n\nReport bugs") == "5.0.7"
    assert machine.version("slurm 24.11.5") == "24.11.5"


def test_the_table_of_slow_storage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It has a place of its own on the page, so that the launches' table stays as it is."""
    way = {"wall": [9.0, 8.0, 12.0], "served": [400.0, 401.0, 399.0]}
    size = {"nodes": 4, "ranks": 1, "rate": 25, "image": 132, "programs": {"all": {"read where it is": way}}}
    file = {"machine": {"commit": "abc", "date": "2026-11-23"}, "storage": [size]}
    table = page.storage([file])
    assert "### 4 nodes, 1 rank on each, image of 132 MB, 25 MB/s" in table
    assert "| all | read where it is | 9.0 s (8.0 to 12.0) | 400 MB |" in table
    assert "Medians of 3 and their range, commit abc on 2026-11-23." in table
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    page.PAGE.write_text(f"a\n{page.MARK}\nb\n{page.END}\nc\n{page.STORAGE}\n{page.END}\nd\n")
    page.write_storage([file])
    assert page.PAGE.read_text() == f"a\n{page.MARK}\nb\n{page.END}\nc\n{page.STORAGE}\n{table}\n{page.END}\nd\n"

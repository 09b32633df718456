"""The tables of docs/testing.md, of what was run: `scripts/test --full` writes them from the last result of each test.

The results are kept in a file, since nobody runs all at once: each run puts its own in.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path

from figures import between

from .cells import RUNTIMES

WAYS, CELLS = "<!-- scripts/test --full writes this -->", "<!-- and this: tests/live/test_matrix.py -->"
END = "<!-- up to here -->"
STARTS = {"inside": "inside-out", "mpirun": "outside-in, mpirun", "srun": "outside-in, srun"}
IMAGES = {"ompi5": "Open MPI 5", "ompi4": "Open MPI 4", "mpich": "MPICH", "host": "no container"}
PLACES = {"slurm": "Slurm", "ssh": "hosts by ssh", "paramiko": "hosts by paramiko"}
BEGUN = {
    ("inside", "ssh"): "inside-out, ssh",
    ("inside", "pipe"): "inside-out, pipe",
    ("mpirun", "none"): "outside-in, mpirun",
    ("srun", "none"): "outside-in, srun",
}
_WAY = re.compile(r"\b(inside|mpirun|srun)-(ompi5|ompi4|mpich|host)\b")
_CELL = re.compile(r"\btest_cell\[(\w+)-(\w+)-(\w+)-(\w+)-(\w+)\]")
_FLIPPED = re.compile(r"\b(ompi5|ompi4|mpich|host)-(inside|mpirun|srun)\b")


def plain(nodeid: str) -> str:
    """A test's id without the group that pytest-xdist writes behind it, and pytest alone does not."""
    return re.sub(r"@[\w-]+\Z", "", nodeid)


def ways(nodeid: str) -> set[tuple[str, str]]:
    """(start, image) of each way to start ranks that a test's name holds."""
    return {*_WAY.findall(nodeid), *((start, image) for image, start in _FLIPPED.findall(nodeid))}


def table(passed: Iterable[str], failed: Iterable[str]) -> str:
    """Return the table, by the ids of the tests: how many live tests each pair of starter and image passed."""
    good = Counter(way for nodeid in passed for way in ways(nodeid))
    bad = Counter(way for nodeid in failed for way in ways(nodeid))
    lines = ["| | " + " | ".join(IMAGES.values()) + " |", "|---" * (len(IMAGES) + 1) + "|"]
    for start, called in STARTS.items():
        lines.append(f"| {called} | " + " | ".join(_cell(good[start, i], bad[start, i]) for i in IMAGES) + " |")
    return "\n".join(lines)


def _cell(good: int, bad: int) -> str:
    return f"{good} passed, {bad} failed" if bad else f"{good} passed" if good else "not run"


def cells(passed: Iterable[str], failed: Iterable[str]) -> str:
    """Return the table of test_matrix.py: each runtime at each place, by who starts the ranks; which images failed."""
    good, bad = Counter(map(_cell_of, passed)), Counter(map(_cell_of, failed))
    lines = ["| | " + " | ".join(BEGUN.values()) + " |", "|---" * (len(BEGUN) + 1) + "|"]
    for runtime, place in product(RUNTIMES, PLACES):
        found = (
            _cell(good[runtime, place, begun], bad[runtime, place, begun]) if can_be(place, begun[0]) else "-"
            for begun in BEGUN
        )
        lines.append(f"| {runtime}, {PLACES[place]} | " + " | ".join(found) + " |")
    return "\n".join(lines)


def can_be(place: str, begun: str) -> bool:
    """srun is Slurm's own."""
    return begun != "srun" or place == "slurm"


def _cell_of(nodeid: str) -> tuple[str, str, tuple[str, str]] | None:
    match = _CELL.search(nodeid)
    return (match[1], match[3], (match[2], match[5])) if match else None


def write(page: Path, mark: str, text: str) -> None:
    """Put a table between its marks."""
    page.write_text(between(page.read_text(encoding="utf-8"), mark, END, text), encoding="utf-8")


def remember(place: Path, now: Mapping[str, bool], whole: bool) -> dict[str, bool]:
    """Whether each test passed when it was last run, by its id, with this run's.

    `whole`: all tests of the files in it were run, so that others of them are no more.
    """
    before: dict[str, bool] = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    files = {_file(nodeid) for nodeid in now} if whole else set()
    known = {plain(nodeid): passed for nodeid, passed in before.items() if _file(nodeid) not in files}
    known.update({plain(nodeid): passed for nodeid, passed in now.items()})
    new = place.with_suffix(".new")
    new.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
    new.rename(place)
    return known


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def write_all(page: Path, known: Mapping[str, bool]) -> None:
    """Return each table of which there was a test."""
    passed = [nodeid for nodeid, well in known.items() if well]
    failed = [nodeid for nodeid, well in known.items() if not well]
    for mark, make, test in ((WAYS, table, "test_ranks.py"), (CELLS, cells, "test_matrix.py")):
        if any(test in nodeid for nodeid in known):
            write(page, mark, make(passed, failed))

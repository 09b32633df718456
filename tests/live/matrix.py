"""The README's table of what was run: `scripts/test --full` writes it from the results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

BEGIN, END = "<!-- scripts/test --full writes this -->", "<!-- up to here -->"
STARTS = {"inside": "inside-out", "mpirun": "outside-in, mpirun", "srun": "outside-in, srun"}
IMAGES = {"ompi5": "Open MPI 5", "ompi4": "Open MPI 4", "mpich": "MPICH", "host": "no container"}
_WAY = re.compile(r"\b(inside|mpirun|srun)-(ompi5|ompi4|mpich|host)\b")
_FLIPPED = re.compile(r"\b(ompi5|ompi4|mpich|host)-(inside|mpirun|srun)\b")


def ways(nodeid: str) -> set[tuple[str, str]]:
    """(start, image) of each way to start ranks that a test's name holds."""
    return {*_WAY.findall(nodeid), *((start, image) for image, start in _FLIPPED.findall(nodeid))}


def table(passed: Iterable[str], failed: Iterable[str]) -> str:
    """The table, by the ids of the tests: how many live tests each pair of starter and image passed."""
    good = Counter(way for nodeid in passed for way in ways(nodeid))
    bad = Counter(way for nodeid in failed for way in ways(nodeid))
    lines = ["| | " + " | ".join(IMAGES.values()) + " |", "|---" * (len(IMAGES) + 1) + "|"]
    for start, called in STARTS.items():
        lines.append(f"| {called} | " + " | ".join(_cell(good[start, i], bad[start, i]) for i in IMAGES) + " |")
    return "\n".join(lines)


def _cell(good: int, bad: int) -> str:
    return f"{good} passed, {bad} failed" if bad else f"{good} passed" if good else "-"


def write(readme: Path, text: str) -> None:
    """Put the table between its marks."""
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")

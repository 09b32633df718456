"""The tables of "Run time" in docs/performance.md, made from the JSON file of the instrument."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from ..page import put, title, versions
from .pairs import LIMIT, Ratio, coverage, left_out, ratio
from .rounds import FIGURES
from .ways import BARE

MARK = "<!-- scripts/bench --speed --table writes this -->"
HEADS = {"small": "8 bytes", "megabyte": "1 MB", "largest": "4 MB", "allreduce": "Allreduce", "loop": "loop"}
BYTES = {"megabyte": 1e6, "largest": 4e6}

Measured = Mapping[str, Any]


def write(found: Measured) -> None:
    """Put the tables into the documentation."""
    put(MARK, tables(found))


def tables(found: Measured) -> str:
    """Return a table for each place, and what they say together."""
    return "\n\n".join((*map(_table, found["places"]), _summary(found)))


def _table(place: Measured) -> str:
    alone = place["nodes"] == 1
    head = ["", *HEADS.values(), *(["single copy"] if alone else [])]
    lines = [head, ["---"] * len(head)]
    bare = [_bare(place, name) for name in FIGURES]
    for name, cells in [(BARE.name, bare), *((name, _cells(way)) for name, way in place["ways"].items())]:
        copy = [("yes" if place["single_copy"][name] else "no")] if alone else []
        lines.append([name, *cells, *copy])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"### {title({**place, 'place': 'cluster'})}\n\n{table}"


def _bare(place: Measured, name: str) -> str:
    """Return the median of the bare runs: a time, and a bandwidth where bytes are sent."""
    time = median(value for way in place["ways"].values() for value in way[name]["bare"])
    speed = f", {BYTES[name] / time / 1000:.1f} GB/s" if name in BYTES else ""
    return f"{time:.{2 if time < 100 else 0}f} µs{speed}"


def _cells(way: Measured) -> Iterator[str]:
    for found in map(_ratio, (way[name] for name in FIGURES)):
        text = f"{found.middle:.3f} ({found.low:.3f} to {found.high:.3f})"
        yield f"**{text}**" if found.slower else text


def _ratio(pairs: Measured) -> Ratio:
    return ratio(pairs["way"], pairs["bare"])


def _summary(found: Measured) -> str:
    machine = found["machine"]
    ratios = [
        _ratio(pairs)
        for place in found["places"]
        for name, way in place["ways"].items()
        if not name.startswith(BARE.name)
        for pairs in way.values()
    ]
    number = min(
        len(pairs["way"]) for place in found["places"] for way in place["ways"].values() for pairs in way.values()
    )
    sure = coverage(number, left_out(number))
    within = sum(ratio.middle <= LIMIT for ratio in ratios)
    return "\n".join(
        (
            f"Of {len(ratios)} medians of mnrun's ways, {within} are within 1 % or faster. "
            f"{sum(ratio.slower for ratio in ratios)} are slower than that beyond doubt.",
            f"Each is of {number} pairs. An interval holds the true median with a probability of {100 * sure:.0f} %.",
            f"{machine['processor']}, {machine['cores']} cores, commit {machine['commit']} on {machine['date']}.",
            versions(machine),
        )
    )

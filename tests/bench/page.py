"""The tables of docs/performance.md, made from the JSON files of the bench."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from .ways import Size, Target, Way, of_cluster, of_machine

TOP = Path(__file__).resolve().parents[2]
PAGE = TOP / "docs/performance.md"
MARK, END = "<!-- scripts/bench --table writes this -->", "<!-- up to here -->"
IMAGE = "![Time and CPU of each way, as ratios to the least](performance/launch.svg)"
HEAD = "| | time | target | CPU | target | forks per node | beyond the least | target | until nothing is left |"

Measured = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """The medians of a way. `wall` and `cpu` are seconds, the ratios are to the least of the same run."""

    name: str
    wall: float
    cpu: float
    forks: float
    teardown: float
    wall_ratio: float
    cpu_ratio: float
    more_forks: float
    target: Target


def text(found: Measured) -> str:
    """Return the JSON of a run of the bench, with each list on one line."""
    return re.sub(r"\[\s+([^][{}]*?)\s+\]", _on_one_line, json.dumps(found, indent=1)) + "\n"


def _on_one_line(match: re.Match[str]) -> str:
    return "[" + " ".join(match[1].split()) + "]"


def rows(measured: Measured, runtime: str) -> list[Row]:
    """Return the least and the medians of each way at one size, in the order in which they were measured."""
    size = Size(measured["nodes"], measured["ranks"])
    known = {way.name: way for way in _ways(measured, size, runtime)}
    medians = {
        name: {part: median(values) for part, values in parts.items()} for name, parts in measured["ways"].items()
    }
    least = {
        part: sum(medians[name][part] for name, way in known.items() if way.least) for part in ("wall", "cpu", "forks")
    }
    least["teardown"] = max(medians[name]["teardown"] for name, way in known.items() if way.least)

    def row(name: str, parts: Mapping[str, float]) -> Row:
        return Row(
            name,
            parts["wall"],
            parts["cpu"],
            parts["forks"] / size.nodes,
            parts["teardown"],
            parts["wall"] / least["wall"],
            parts["cpu"] / least["cpu"],
            (parts["forks"] - least["forks"]) / size.nodes,
            known[name].target if name in known else Target(),
        )

    return [row("the least: bare mpirun and a container", least), *(row(*item) for item in medians.items())]


def _ways(measured: Measured, size: Size, runtime: str) -> list[Way]:
    return (of_machine if measured["place"] == "machine" else of_cluster)(size, runtime)


def tables(files: Sequence[Measured]) -> str:
    """Return a table for each size of each file, with the facts of its machine."""
    return "\n\n".join(_table(found, measured) for found in files for measured in found["sizes"])


def title(measured: Measured) -> str:
    """Return the name of a size."""
    if measured["place"] == "machine":
        return f"One machine, {measured['ranks']} ranks, no scheduler"
    return f"{measured['nodes']} node{'s' if measured['nodes'] > 1 else ''}, {measured['ranks']} ranks on each"


def _table(found: Measured, measured: Measured) -> str:
    machine, idle = found["machine"], measured["idle"]
    runs = min(len(parts["wall"]) for parts in measured["ways"].values())
    lines = [f"### {title(measured)}", "", HEAD, "|---" * (HEAD.count("|") - 1) + "|"]
    lines += [_line(row) for row in rows(measured, found["runtime"])]
    versions = f"Slurm {machine['slurm']}, Open MPI {machine['openmpi']}, Apptainer {machine['apptainer']}"
    about = f"Medians of {runs}, {found['runtime']}, commit {machine['commit']} on {machine['date']}."
    under = f"{machine['cores']} cores carried all nodes. {versions}, Linux {machine['kernel']}."
    quiet = f"The idle cluster took {idle['cpu']:.3f} s of CPU and {idle['forks']:.1f} forks each second."
    return "\n".join([*lines, "", about, under, quiet])


def _line(row: Row) -> str:
    target = row.target
    cells = [
        row.name,
        f"{row.wall_ratio:.2f} ({row.wall:.2f} s)",
        f"{target.wall:.2f}" if target.wall else "",
        f"{row.cpu_ratio:.2f} ({row.cpu:.2f} s)",
        f"{target.cpu:.2f}" if target.cpu else "",
        f"{row.forks:.0f}",
        f"{row.more_forks:+.0f}",
        f"{target.forks}" if target.forks else "",
        f"{row.teardown:.2f} s",
    ]
    return f"| {' | '.join(cells)} |"


def write(files: Sequence[Measured]) -> None:
    """Put the tables into the documentation."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARK)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{MARK}\n{IMAGE}\n\n{tables(files)}\n{END}{after}", encoding="utf-8")

"""The tables of docs/performance.md, made from the JSON files of the bench."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rehearsal.errors import Unable

from .ways import Size, Target, Way, of_cluster, of_engine, of_machine

TOP = Path(__file__).resolve().parents[2]
PAGE = TOP / "docs/performance.md"
MARK, END = "<!-- scripts/bench --table writes this -->", "<!-- up to here -->"
STORAGE = "<!-- scripts/bench --table writes this, of --storage -->"
IMAGE = "![Time and CPU of each way, as ratios to the least](performance/launch.svg)"
Measured = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """The medians of a way. `wall` and `cpu` are seconds, the ratios are to the least of the same run, or to the way
    that it is compared with."""

    name: str
    wall: float
    cpu: float
    forks: float
    teardown: float
    wall_ratio: float
    cpu_ratio: float
    target: Target


def text(found: Measured) -> str:
    """Return the JSON of a run of the bench, with each list on one line."""
    return re.sub(r"\[\s+([^][{}]*?)\s+\]", _on_one_line, json.dumps(found, indent=1)) + "\n"


def _on_one_line(match: re.Match[str]) -> str:
    return "[" + " ".join(match[1].split()) + "]"


def read(file: Path) -> dict[str, Any]:
    """Return the measurements of a file."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unable(f"no measurements: {error}; name a file that -o has written") from None
    return found


def hand_over(found: Measured, shown: str, output: Path | None) -> None:
    """Write the JSON to a file and print its tables, or print the JSON alone."""
    if output:
        output.write_text(text(found), encoding="utf-8")
    print(shown if output else text(found), end="\n" if output else "")


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
        by = medians[known[name].beside] if name in known and known[name].beside else least
        return Row(
            name,
            parts["wall"],
            parts["cpu"],
            parts["forks"] / size.nodes,
            parts["teardown"],
            parts["wall"] / by["wall"],
            parts["cpu"] / by["cpu"],
            known[name].target if name in known else Target(),
        )

    return [row("the least", least), *(row(*item) for item in medians.items())]


def _ways(measured: Measured, size: Size, runtime: str) -> list[Way]:
    if measured["place"] == "machine":
        return of_machine(size, runtime)
    ways = of_cluster(size, runtime)
    return [*ways, *of_engine(ways)]


def tables(files: Sequence[Measured], before: Sequence[Measured] = ()) -> str:
    """Return a table for each size of each file, with the facts of its machine, and with what was `before`."""
    old = {_key(found, measured): rows(measured, found["runtime"]) for found in before for measured in found["sizes"]}
    return "\n\n".join(
        _table(found, measured, {row.name: row for row in old.get(_key(found, measured), [])})
        for found in files
        for measured in found["sizes"]
    )


def _key(found: Measured, measured: Measured) -> tuple[object, ...]:
    return (found["runtime"], measured["place"], measured["nodes"], measured["ranks"])


def title(measured: Measured) -> str:
    """Return the name of a size."""
    ranks = _count(measured["ranks"], "rank")
    if measured["place"] == "machine":
        return f"One machine, {ranks}, no scheduler"
    return f"{_count(measured['nodes'], 'node')}, {ranks} on each"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _table(found: Measured, measured: Measured, old: Mapping[str, Row]) -> str:
    also = ["before", "target"] if old else ["target"]
    head = ["", "time", *also, "CPU", *also, "forks per node", *also, "until nothing is left"]
    lines = [head, ["---"] * len(head)]
    lines += [_cells(row, old.get(row.name), bool(old)) for row in rows(measured, found["runtime"])]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"### {title(measured)}\n\n{table}\n\n{_about(found, measured)}"


def _cells(row: Row, old: Row | None, compared: bool) -> list[str]:
    """Return the cells of a line: each figure, the figure before if these are `compared`, and the target."""

    def figure(now: str, before: str, target: str) -> list[str]:
        return [now, *([before] if compared else []), target]

    return [
        row.name,
        *figure(
            f"{row.wall_ratio:.2f} ({row.wall:.2f} s)", f"{old.wall_ratio:.2f}" if old else "", _goal(row.target.wall)
        ),
        *figure(f"{row.cpu_ratio:.2f} ({row.cpu:.2f} s)", f"{old.cpu_ratio:.2f}" if old else "", _goal(row.target.cpu)),
        *figure(f"{row.forks:.0f}", f"{old.forks:.0f}" if old else "", str(row.target.forks or "")),
        f"{row.teardown:.2f} s",
    ]


def _goal(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio else ""


def _about(found: Measured, measured: Measured) -> str:
    machine, idle, ways = found["machine"], measured["idle"], measured["ways"].values()
    runs = min(len(parts["wall"]) for parts in ways)
    busy = sum(sum(parts["machine_cpu"]) - sum(parts["cpu"]) for parts in ways)
    spent = sum(sum(parts["wall"]) + sum(parts["teardown"]) for parts in ways)
    return "\n".join(
        (
            f"Medians of {runs}, {found['runtime']}, commit {machine['commit']} on {machine['date']}.",
            f"{machine['cores']} cores carried all nodes, and other work took {busy / spent:.1f} of them.",
            versions(machine),
            f"The idle cluster took {idle['cpu']:.3f} s of CPU and {idle['forks']:.1f} forks each second.",
        )
    )


def storage(files: Sequence[Measured]) -> str:
    """Return a table of launches from slow storage for each size of each file."""
    return "\n\n".join(_storage(found, measured) for found in files for measured in found["storage"])


def _storage(found: Measured, measured: Measured) -> str:
    lines = [["the program reads", "way", "time", "served by the storage"], ["---"] * 4]
    for program, ways in measured["programs"].items():
        for way, parts in ways.items():
            spread = f"{min(parts['wall']):.1f} to {max(parts['wall']):.1f}"
            wall = f"{median(parts['wall']):.1f} s ({spread})"
            lines.append([program, way, wall, f"{median(parts['served']):.0f} MB"])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    machine = found["machine"]
    head = f"{title({**measured, 'place': 'cluster'})}, image of {measured['image']} MB, {measured['rate']} MB/s"
    runs = len(next(iter(next(iter(measured["programs"].values())).values()))["wall"])
    about = f"Medians of {runs} and their range, commit {machine['commit']} on {machine['date']}."
    return f"### {head}\n\n{table}\n\n{about}"


def write_storage(files: Sequence[Measured]) -> None:
    """Put the tables of slow storage into the documentation."""
    if files:
        put(STORAGE, storage(files))


def versions(machine: Measured) -> str:
    """Return the sentence about what was measured with."""
    return (
        f"Slurm {machine['slurm']}, Open MPI {machine['openmpi']}, Apptainer {machine['apptainer']}, "
        f"Linux {machine['kernel']}."
    )


def write(files: Sequence[Measured], before: Sequence[Measured] = ()) -> None:
    """Put the tables into the documentation."""
    put(MARK, f"{IMAGE}\n\n{tables(files, before)}")


def put(mark: str, made: str) -> None:
    """Put what was made after its mark in the documentation, in place of the last one."""
    above, _, rest = PAGE.read_text(encoding="utf-8").partition(mark)
    PAGE.write_text(f"{above}{mark}\n{made}\n{END}{rest.partition(END)[2]}", encoding="utf-8")

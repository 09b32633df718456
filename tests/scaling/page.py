"""The tables of docs/explanation/scaling.md, from the measured parts in docs/explanation/scaling.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .model import Assumed, Parts, measured, on_one_machine, parts_of, predict

TOP = Path(__file__).resolve().parents[2]
PAGE = TOP / "docs/explanation/scaling.md"
SOURCE = TOP / "docs/explanation/scaling.json"
MARK, END = "<!-- scripts/model writes this -->", "<!-- up to here -->"
SIZES = (1, 4, 16, 64, 1000, 10000)
NAMES = {
    "begin": "before the first step",
    "container": "step and container",
    "mpirun": "mpirun",
    "guard": "guard, and end",
    "step": "tree of the step",
    "image": "image from storage",
    "kit": "kit and files",
    "words": "words of nodes",
}


def tables(source: Mapping[str, Any], assumed: Assumed) -> str:
    """Return the parts, the check against what was measured, and the predictions."""
    parts = parts_of(source["bench"], source["plays"], source["begin"], source["image"])
    made = _parts(parts), _about(source["bench"]["machine"]), _check(source, parts), _predictions(parts, assumed)
    return "\n\n".join((*made, _plays(source["plays"])))


def _about(machine: Mapping[str, str]) -> str:
    versions = f"Slurm {machine['slurm']}, Open MPI {machine['openmpi']}, Apptainer {machine['apptainer']}"
    return f"Measured on {machine['date']} on a rehearsal cluster, inside-out by the pipe. {versions}."


def _parts(parts: Parts) -> str:
    rows = [
        ("a launch on one node", f"{parts.alone:.2f} s"),
        ("of it, bare `mpirun`", f"{parts.mpirun:.2f} s"),
        ("of it, a step with one container", f"{parts.container:.2f} s"),
        ("of it, mnrun before its first step", f"{parts.begin:.2f} s"),
        ("CPU of all processes on one more node", f"{parts.node:.2f} s"),
        ("CPU of the launcher for one more node", f"{1000 * parts.word:.2f} ms"),
        ("sent to each node", f"{parts.kit / 1000:.0f} kB, and {parts.line:.0f} bytes for each node of the job"),
        ("read of the image at a container's start", f"{parts.image / 1e6:.0f} MB"),
    ]
    return _table(("part", "measured"), rows)


def _check(source: Mapping[str, Any], parts: Parts) -> str:
    rows = []
    for nodes, seconds in measured(source["bench"]).items():
        model = on_one_machine(parts, nodes)
        rows.append((str(nodes), f"{seconds:.1f} s", f"{model:.1f} s", f"{100 * (model / seconds - 1):+.0f} %"))
    return _table(("nodes on one machine", "CPU, measured", "CPU, model", "difference"), rows)


def _predictions(parts: Parts, assumed: Assumed) -> str:
    rows = []
    for nodes in SIZES:
        shared, staged = predict(parts, nodes, assumed), predict(parts, nodes, assumed, staged=True)
        grown = [f"{shared.parts[name]:.2f}" for name in ("step", "words", "kit", "image")]
        ends = [f"{one.total:.1f} s{_why(one.bottleneck)}" for one in (shared, staged)]
        rows.append((f"{nodes:,}", *grown, *ends))
    head = ("nodes", *(NAMES[name] for name in ("step", "words", "kit", "image")), "whole", "whole, image on the nodes")
    return _table(head, rows)


def _why(bottleneck: str) -> str:
    return f" ({NAMES[bottleneck]})" if bottleneck else ""


def _plays(plays: Sequence[Mapping[str, float]]) -> str:
    head = ("simulated nodes", "ranks", "CPU of the launcher", "its memory", "commands that it started")
    rows = []
    for play in plays:
        nodes, ranks = int(play["nodes"]), int(play["nodes"] * play["ranks"])
        rows.append(
            (f"{nodes:,}", f"{ranks:,}", f"{play['cpu']:.2f} s", f"{play['memory']:.0f} MB", str(play["steps"]))
        )
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def written(page: str, source: Mapping[str, Any]) -> str:
    """Return the page with the tables of these measurements."""
    before, _, rest = page.partition(MARK)
    return f"{before}{MARK}\n{tables(source, Assumed())}\n{END}{rest.partition(END)[2]}"


def read() -> dict[str, Any]:
    """Return the measurements that the page has been made from."""
    found: dict[str, Any] = json.loads(SOURCE.read_text(encoding="utf-8"))
    return found

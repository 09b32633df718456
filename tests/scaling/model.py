"""A model of the time of a launch, from the start of mnrun to its end, by parts that were measured. Pure.

A launch takes as long as one on a single node, and what each further node adds. On a cluster, the nodes work side by
side, and what they share grows: the tree of a step, the storage with the image, the link of the launcher, and the
launcher itself. Where one machine carries all nodes, their CPU time adds up, and that checks the parts.
CPU seconds stand for the time of a node, whose work is nearly serial: they vary little where others use the machine.
The wire-up of the MPI itself is left out beyond one node: a bare `mpirun` pays for it, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

MPIRUN, CONTAINER, MNRUN = "bare mpirun", "one container per node", "mnrun, pipe"  # ways of scripts/bench
SHARED = ("step", "image", "kit", "words")  # the parts that grow with the nodes of a cluster


@dataclass(frozen=True)
class Assumed:
    """The cluster of the prediction."""

    fanout: int = 16  # slurm.conf(5), TreeWidth
    hop: float = 0.01  # seconds for each level of a step's tree
    link: float = 1.25e9  # bytes per second from the launcher's node
    storage: float = 5e9  # bytes per second from the storage that all nodes share


@dataclass(frozen=True)
class Parts:
    """The measured parts: seconds and bytes.

    `alone` is a launch on one node, `mpirun` and `container` are bare, and `begin` is what mnrun does before its first
    step. Each further node adds `word` seconds to the launcher, and `node` seconds to a machine that carries all nodes.
    The launcher sends each node `kit` bytes, and `line` bytes more for every node of the job. A container reads `image`
    bytes of its image at its start.
    """

    alone: float
    mpirun: float
    container: float
    begin: float
    node: float
    word: float
    kit: float
    line: float
    image: float


@dataclass(frozen=True)
class Prediction:
    """The parts of a launch's time on a cluster, in seconds."""

    nodes: int
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.parts.values())

    @property
    def bottleneck(self) -> str:
        """Return the part that has grown most, or "" if the parts of one node take longer than all growth."""
        grown = {name: self.parts[name] for name in SHARED}
        return max(grown, key=lambda name: grown[name]) if 2 * sum(grown.values()) > self.total else ""


def predict(parts: Parts, nodes: int, assumed: Assumed, staged: bool = False) -> Prediction:
    """Return the time on a cluster. With `staged`, the image is on the nodes, and nothing shared is read."""
    others = nodes - 1
    levels = math.ceil(math.log(nodes, assumed.fanout) - 1e-9) if others else 0
    return Prediction(
        nodes,
        {
            "begin": parts.begin,
            "container": parts.container,
            "mpirun": parts.mpirun,
            "guard": parts.alone - parts.begin - parts.container - parts.mpirun,
            "step": 2 * levels * assumed.hop,  # there, and back
            "image": 0.0 if staged else others * parts.image / assumed.storage,
            "kit": others * (parts.kit + nodes * parts.line) / assumed.link,
            "words": others * parts.word,
        },
    )


def on_one_machine(parts: Parts, nodes: int) -> float:
    """Return the CPU time of a launch of which one machine carries all nodes."""
    return parts.alone + (nodes - 1) * parts.node


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the rise of the straight line through points, by least squares."""
    x, y = mean(point[0] for point in points), mean(point[1] for point in points)
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def parts_of(bench: Mapping[str, Any], plays: Sequence[Mapping[str, float]], begin: float, image: float) -> Parts:
    """Return the parts by a run of scripts/bench, and by plays of the launcher (play.py)."""
    sizes = {size["nodes"]: size["ways"] for size in bench["sizes"] if size["place"] == "cluster"}
    least, large = min(plays, key=lambda play: play["nodes"]), max(plays, key=lambda play: play["nodes"])
    line = (large["sent"] - least["sent"]) / (large["nodes"] - least["nodes"])
    return Parts(
        alone=_of(sizes[1], MNRUN),
        mpirun=_of(sizes[1], MPIRUN),
        container=_of(sizes[1], CONTAINER),
        begin=begin,
        node=slope([(nodes, _of(ways, MNRUN)) for nodes, ways in sizes.items()]),
        word=slope([(play["nodes"], play["cpu"]) for play in plays]),
        kit=least["sent"] - least["nodes"] * line,
        line=line,
        image=image,
    )


def measured(bench: Mapping[str, Any]) -> dict[int, float]:
    """Return nodes -> CPU seconds of a launch, as the bench has measured them."""
    sizes = [size for size in bench["sizes"] if size["place"] == "cluster"]
    return {size["nodes"]: _of(size["ways"], MNRUN) for size in sizes}


def _of(ways: Mapping[str, Any], way: str) -> float:
    return float(median(ways[way]["cpu"]))

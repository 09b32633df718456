"""Run the program in each way, beside bare runs of it, on a rehearsal cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from rehearsal import enter
from rehearsal.cluster import ask
from rehearsal.errors import ClusterError
from rehearsal.model import LOGIN, Cluster

from ..rounds import Say, allocated
from ..ways import Size
from .ways import BARE, Way

FIGURES = ("small", "megabyte", "largest", "allreduce", "loop")
# Open MPI 5 says the first of each rank (mca_smsc_base_select), and the second where it may not read another rank's
# memory after all (mca_smsc_cma_module_get_endpoint).
CHOSEN, REFUSED = "selected shared-memory single-copy component: cma", "get_endpoint: can not proceed"

Figures = dict[str, float]
T = TypeVar("T")


def measure(cluster: Cluster, size: Size, ways: Sequence[Way], pairs: int, say: Say) -> dict[str, Any]:
    """Return the figures of `pairs` runs of each way and of the bare runs beside them, and who has single copies.

    One more round before them warms the caches and asks for the copies. Every other round goes backwards, so a way's
    bare run is before it in one round, and after it in the next one.
    """
    taken: dict[str, dict[str, dict[str, list[float]]]] = {
        way.name: {name: {"way": [], "bare": []} for name in FIGURES} for way in ways
    }
    with allocated(cluster, size) as environ:
        copies = {way.name: single_copy(_run(cluster, size, way, environ, "-v")) for way in (BARE, *ways)}
        for number in range(pairs):

            def run(way: Way, number: int = number) -> Figures:
                found = figures(_run(cluster, size, way, environ))
                say(f"{size} {number + 1}/{pairs} {way.name}: {found}")
                return found

            for way, mine, bare in beside(run, BARE, ways[:: -1 if number % 2 else 1]):
                for name in FIGURES:
                    taken[way.name][name]["way"].append(mine[name])
                    taken[way.name][name]["bare"].append(bare[name])
    return {"nodes": size.nodes, "ranks": size.ranks, "single_copy": copies, "ways": taken}


def beside(run: Callable[[T], Figures], bare: T, each: Sequence[T]) -> Iterator[tuple[T, Figures, Figures]]:
    """Run each of them once, directly after or before a bare run. Yield it with its own figures and the bare ones."""
    before = run(bare)
    for first, second in zip_longest(each[::2], each[1::2]):
        yield first, run(first), before
        if second is not None:
            found, before = run(second), run(bare)
            yield second, found, before


def figures(text: str) -> Figures:
    """Return the quick value of each figure in what the program says, in microseconds."""
    found = {name: float(quick) for name, quick in re.findall(r"^(\w+) ([0-9.]+) [0-9.]+$", text, re.MULTILINE)}
    if tuple(found) != FIGURES:
        raise ClusterError(f"the program printed no figures, or others than {' '.join(FIGURES)}:\n{text}")
    return found


def single_copy(text: str) -> bool:
    """Return whether both ranks copy each other's messages once, as Open MPI itself says."""
    return text.count(CHOSEN) == 2 and REFUSED not in text


def _run(cluster: Cluster, size: Size, way: Way, environ: Sequence[str], *more: str) -> str:
    """Return the output of one run. Ranks that are not where they belong, or on one CPU, end everything."""
    words = enter.words(["env", *environ, *way.words, *more], "alice", None, "dumb")
    text = ask(cluster, LOGIN, *words)
    ranks = re.findall(r"^rank [01] of 2 on (\S+) CPU (\d+)$", text, re.MULTILINE)
    if len({node for node, _ in ranks}) != size.nodes or len({cpu for _, cpu in ranks}) != 2:
        raise ClusterError(f"{way.name}: no two ranks on {size.nodes} nodes, each with its own CPU:\n{text}")
    return text

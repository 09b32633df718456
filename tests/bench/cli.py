"""The command line: `scripts/bench --help`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rehearsal import host
from rehearsal.errors import ClusterError, Unable
from rehearsal.model import Cluster

from . import machine, page, plot, storage
from .meter import Meter
from .place import placed
from .rounds import measure
from .ways import BLANKS, IMAGES, Size, chosen, of_cluster, of_engine, of_machine, of_user

PLOT = machine.TOP / "docs/performance/launch.svg"
SIZES = "1x2 4x2 16x2 64x1"


def parser() -> argparse.ArgumentParser:
    """Return all options."""
    top = argparse.ArgumentParser(
        prog="bench",
        description="What a launch costs, beside the least it can cost.",
        epilog="--speed --help: how fast a program runs",
    )
    top.add_argument("sizes", nargs="*", default=SIZES.split(), type=size, help=f"NODESxRANKS ({SIZES})")
    top.add_argument("--runs", type=runs, default=5, help="rounds after the first, which warms the caches (5)")
    top.add_argument(
        "--ways", nargs="+", default=(), metavar="TEXT", help="the least, and ways with TEXT in their name"
    )
    top.add_argument(
        "--way",
        action="append",
        default=[],
        metavar="NAME=WORDS",
        help="a line of your own, typed in the allocation; it may have " + " ".join(f"{{{blank}}}" for blank in BLANKS),
    )
    top.add_argument("--runtime", choices=IMAGES, default="apptainer", help="of the containers (apptainer)")
    top.add_argument("--local", action="store_true", help="also one machine without a scheduler")
    top.add_argument(
        "--engine", nargs="?", const="", metavar="NAME", help="also under Grid Engine, on a second cluster (this one)"
    )
    top.add_argument("--storage", type=int, metavar="MB", help="measure --stage, with storage of so many MB/s in all")
    top.add_argument("--cluster", metavar="NAME", help="measure on this cluster, which is up")
    top.add_argument("-o", "--output", type=Path, metavar="FILE", help="where the JSON goes (standard output)")
    top.add_argument("--table", nargs="+", type=Path, metavar="FILE", help="write docs/performance.md from these files")
    top.add_argument("--before", nargs="+", type=Path, default=(), metavar="FILE", help="of --table: to compare with")
    return top


def size(text: str) -> Size:
    """Return the size in a text like 16x2."""
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write NODESxRANKS, as 16x2")
    return Size(int(match[1]), int(match[2]))


def runs(text: str) -> int:
    """Return a number of rounds."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rounds: 5 or more are good")
    return int(text)


def main(argv: list[str]) -> int:
    """Do what argv says, and return the exit code."""
    args = parser().parse_args(argv)
    args.sizes = [size(item) if isinstance(item, str) else item for item in args.sizes]
    try:
        if args.table:
            return _write([page.read(file) for file in args.table], [page.read(file) for file in args.before])
        _refuse(args)
        host.need_linux_root()
        found = _on_cluster(args)
    except ClusterError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.code
    page.hand_over(found, (page.storage if args.storage else page.tables)([found]), args.output)
    return 0


def _refuse(args: argparse.Namespace) -> None:
    """Raise Unable for a bad --way, before anything starts."""
    if args.way and args.storage:
        raise Unable("--way and --storage do not go together: --storage has its own launches; leave one out")
    of_user(args.way, args.sizes[0], args.runtime)


def _write(files: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> int:
    launches = [found for found in files if "sizes" in found]
    if launches:
        page.write(launches, before)
        PLOT.write_text(plot.svg(launches), encoding="utf-8")
    page.write_storage([found for found in files if "storage" in found])
    return 0


def _on_cluster(args: argparse.Namespace) -> dict[str, object]:
    docker = args.runtime == "docker"
    nodes = max(size.nodes for size in args.sizes)
    with ExitStack() as held:
        cluster = held.enter_context(placed(args.cluster, nodes, [args.runtime], cgroup=docker))
        if docker and not cluster.options().cgroup:
            problem = f"{cluster.name}: docker's containers are in control groups that are not the nodes'"
            raise Unable(f"{problem}: bring one up with --cgroup")
        if args.storage:
            sizes = [storage.measure(cluster, size, args.storage, args.runs, say) for size in args.sizes]
            return {"machine": machine.facts(cluster), "storage": sizes}
        engine = None
        if args.engine is not None:
            engine = Meter(held.enter_context(placed(args.engine, nodes, [args.runtime], sge=True)))
        return {"machine": machine.facts(cluster), "runtime": args.runtime, "sizes": _sizes(cluster, engine, args)}


def _sizes(cluster: Cluster, engine: Meter | None, args: argparse.Namespace) -> list[dict[str, object]]:
    meter = Meter(cluster)
    groups = [(size, chosen(of_cluster(size, args.runtime), args.ways)) for size in args.sizes]
    if engine is not None:
        groups = [(size, [*ways, *of_engine(ways)]) for size, ways in groups]
    groups = [(size, [*ways, *of_user(args.way, size, args.runtime)]) for size, ways in groups]
    if args.local:
        one = Size(1, 2)
        groups.append((one, of_machine(one, args.runtime)))
    return [measure(meter, size, ways, args.runs, say, engine) for size, ways in groups]


def say(text: str) -> None:
    """Print a line about the progress."""
    print(f"bench: {text}", file=sys.stderr, flush=True)

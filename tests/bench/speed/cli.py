"""The command line of the second instrument: `scripts/bench --speed --help`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rehearsal import host
from rehearsal.errors import ClusterError

from .. import machine
from ..cli import runs, say
from ..page import hand_over, read
from ..place import placed
from . import page
from .rounds import measure
from .ways import PLACES, RUNTIMES, ways


def parser() -> argparse.ArgumentParser:
    """Return all options."""
    top = argparse.ArgumentParser(
        prog="bench --speed", description="How fast a program runs in containers, beside bare runs of it."
    )
    top.add_argument("--pairs", type=runs, default=10, help="runs of each way, each beside a bare one (10)")
    top.add_argument("--runtimes", nargs="+", choices=RUNTIMES, default=RUNTIMES, help="of the containers (all)")
    top.add_argument("--cluster", metavar="NAME", help="measure on this cluster, which is up")
    top.add_argument("-o", "--output", type=Path, metavar="FILE", help="where the JSON goes (standard output)")
    top.add_argument("--table", type=Path, metavar="FILE", help="write docs/performance.md from this file")
    return top


def main(argv: list[str]) -> int:
    """Do what argv says, and return the exit code."""
    args = parser().parse_args(argv)
    try:
        if args.table:
            page.write(read(args.table))
            return 0
        host.need_linux_root()
        with placed(args.cluster, max(size.nodes for size in PLACES), args.runtimes) as cluster:
            places = [measure(cluster, size, ways(size, args.runtimes), args.pairs, say) for size in PLACES]
            found = {"machine": machine.facts(cluster), "places": places}
    except ClusterError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.code
    hand_over(found, page.tables(found), args.output)
    return 0

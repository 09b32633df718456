"""Images on slow storage: launches that read the image there, beside launches with --stage."""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rehearsal import enter, tools
from rehearsal.cluster import ask
from rehearsal.errors import ClusterError
from rehearsal.model import LOGIN, Cluster
from rehearsal.namespaces import nsenter

from .rounds import allocated, as_alice
from .ways import HELLO, SIF, Size

SLOW = Path(__file__).with_name("slow.py")
LEDGER = struct.Struct("dq")  # as there
HOME = "/home/alice/bench.storage"  # all nodes see it
PLACE = "/mnt"
FORGET = "rm -rf /var/tmp/mnrun.alice"
READS_ALL = "find / -xdev -type f -exec cat {} + >/dev/null 2>&1; exec " + HELLO
PROGRAMS = {"little of the image": (HELLO,), "the whole image": ("sh", "-c", READS_ALL)}  # as its program reads it
FIRST, LATER = "--stage, first launch", "--stage, later launch"
WAYS: dict[str, tuple[str, ...]] = {"read where it is": (), FIRST: ("--stage",), LATER: ("--stage",)}


def measure(cluster: Cluster, size: Size, rate: int, runs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Return the times of launches from storage that serves `rate` MB per second, and the MB that it served.

    No page cache has anything of the image before a launch.
    """
    nodes = [LOGIN, *cluster.options().compute[: size.nodes]]
    python = f"{tools.put(cluster, ['mfusepy'])}/bin/python"
    taken: dict[str, dict[str, dict[str, list[float]]]] = {
        program: {way: {"wall": [], "served": []} for way in WAYS} for program in PROGRAMS
    }
    with _shared(cluster) as home:
        image = round((home / "files/app.sif").stat().st_size / 1e6)
        with allocated(cluster, size) as environ, ExitStack() as end:
            end.callback(_forget, cluster, nodes)
            for number in range(runs):
                for program in PROGRAMS:
                    for way in WAYS:
                        if way != LATER:
                            _forget(cluster, nodes)
                        with _mounted(cluster, nodes, python, rate * 10**6):
                            cost = _launch(cluster, environ, home, way, program, size)
                        say(f"{size} {number + 1}/{runs} {program}, {way}: {cost}")
                        for part, value in cost.items():
                            taken[program][way][part].append(value)
    return {"nodes": size.nodes, "ranks": size.ranks, "rate": rate, "image": image, "programs": taken}


def _launch(
    cluster: Cluster, environ: Sequence[str], home: Path, way: str, program: str, size: Size
) -> dict[str, float]:
    words = ("mnrun", "--mode", "inside-out", *WAYS[way], "--image", f"{PLACE}/app.sif", "--", *PROGRAMS[program])
    before, begin = _served(home), time.monotonic()
    said = as_alice(cluster, "env", *environ, *words)
    wall = time.monotonic() - begin
    if said.count(f" of {size.tasks} on ") != size.tasks:
        raise ClusterError(f"{way} failed: {' '.join(words)}\n{said}")
    return {"wall": round(wall, 2), "served": round((_served(home) - before) / 1e6, 1)}


def _served(home: Path) -> int:
    served: int = LEDGER.unpack((home / "ledger").read_bytes())[1]
    return served


@contextmanager
def _shared(cluster: Cluster) -> Iterator[Path]:
    """Lay out what the file server has, and yield the directory as this machine sees it."""
    home = Path(f"/proc/{cluster.pid(LOGIN)}/root{HOME}")
    (home / "files").mkdir(parents=True)
    try:
        shutil.copy(SLOW, home)
        (home / "ledger").write_bytes(LEDGER.pack(0, 0))
        ask(cluster, LOGIN, "cp", SIF, f"{HOME}/files/app.sif")
        yield home
    finally:
        shutil.rmtree(home)


@contextmanager
def _mounted(cluster: Cluster, nodes: Sequence[str], python: str, rate: int) -> Iterator[None]:
    """Mount the storage on each node, with a new page cache."""
    words = [python, f"{HOME}/slow.py", f"{HOME}/files", PLACE, str(rate), f"{HOME}/ledger"]
    servers = []
    try:
        for node in nodes:
            line = [*nsenter(cluster.pid(node) or 0), *enter.words(words, "root", None, "dumb")]
            servers.append(subprocess.Popen(line, stdin=subprocess.DEVNULL))
        for node in nodes:
            ask(cluster, node, "timeout", "20", "sh", "-c", f"until [ -e {PLACE}/app.sif ]; do sleep 0.1; done")
        yield
    finally:
        for node in nodes:
            ask(cluster, node, "umount", PLACE, check=False)
        for server in servers:
            server.wait(20)


def _forget(cluster: Cluster, nodes: Sequence[str]) -> None:
    """Remove all copies, and the digest that mnrun remembers."""
    for node in nodes:
        ask(cluster, node, "sh", "-c", FORGET)
    ask(cluster, LOGIN, "sh", "-c", "rm -f /home/alice/.mnrun/cache/facts/sum-*")

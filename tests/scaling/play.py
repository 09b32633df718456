"""Play the launcher against guards that are only played, and return what that cost it. Asks no scheduler.

python -m scaling.play NODES [RANKS]      prints it as JSON
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mnrun.config import layers
from mnrun.jobs.job_dir import opened
from mnrun.model import Allocation, Command, Node, Outcome, Plan, Site
from mnrun.planning import layout, plan
from mnrun.planning.spec import build
from mnrun.planning.values import Surroundings
from mnrun.running import execute
from mnrun.schedulers.slurm.details import Details
from mnrun.system import process
from mnrun.system.screen import Screen

GUARDS = Path(__file__).with_name("guards.py")
FACTS = Path(__file__).parents[1] / "unit/recorded/fabric/roce.txt"  # of a real kind of node, with RoCE and two GPUs
SITE = Site("slurm", "7", Details((24, 11)))


@dataclass(frozen=True)
class Cost:
    """The cost of one launch to the launcher: seconds, CPU seconds, and the most memory (in MB) of its process.

    `steps` are the commands that it started, and `sent` the bytes that it sent to each node.
    """

    nodes: int
    ranks: int
    wall: float
    cpu: float
    memory: float
    steps: int
    sent: int


def planned(nodes: int, ranks: int) -> Plan:
    """Return the plan of a usual job on all nodes of an allocation."""
    names = [f"node{number:05}" for number in range(1, nodes + 1)]
    allocation = Allocation("slurm", SITE.job, tuple(Node(name, ranks, 0) for name in names))
    given = layers.from_command_line({"image": "/images/app.sif", "ntasks_per_node": str(ranks), "connect": "pipe"})
    spec = build(layers.merge(layers.builtin(), given), ("./app",), Surroundings("/home/alice", "/home/alice", {}, {}))
    return plan.make(spec, layout.lay_out(spec, allocation), "7-abcdef")


class Stage:
    """Starts the played guards in place of the serving step, and in place of the program what waits for their end."""

    def __init__(self, folder: Path, nodes: tuple[str, ...], ranks: int) -> None:
        os.mkfifo(folder / "program", 0o600)
        self._words = {
            "serve": (sys.executable, "-S", str(GUARDS), str(folder), str(FACTS), str(ranks), *nodes),
            "run": ("cat", str(folder / "program")),
        }
        self.steps = 0

    def start(
        self, name: str, command: Command, environ: dict[str, str], events: Any, piped: bool, **_: object
    ) -> process.Child:
        """Start the played counterpart of a step."""
        self.steps += 1
        return process.start(name, Command(self._words[name]), environ, events, piped)


def play(nodes: int, ranks: int, folder: Path) -> tuple[Outcome, Cost]:
    """Return the outcome of a launch on that many played nodes, and its cost. `folder` takes its records."""
    before = _used()
    begin = time.monotonic()
    job = planned(nodes, ranks)
    stage = Stage(folder, job.layout.nodes, ranks)
    with opened(str(folder / "jobs"), job.job, keep=False) as records:
        environ = dict(os.environ)
        outcome = execute.Launch(job, SITE, environ, records, Screen(quiet=True), stage.start).run()
    wall, cpu = time.monotonic() - begin, _used() - before
    sent = int((folder / "received").read_text(encoding="utf-8"))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return outcome, Cost(nodes, ranks, round(wall, 3), round(cpu, 3), round(memory, 1), stage.steps, sent)


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        outcome, cost = play(int(sys.argv[1]), int([*sys.argv, "8"][2]), Path(place))
    assert outcome.code == 0
    assert sum(outcome.ranks.values()) == cost.nodes * cost.ranks
    print(json.dumps(asdict(cost)))

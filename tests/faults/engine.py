"""Play a cell: start mnrun, wait for the phase, commit the fault, wait for the end, and look for what is left."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from live.cells import MPIRUN
from live.reports import mine
from live.stage import LOGIN, Cluster, Result, wait_for

from . import checker, phases
from .acts import ACTS
from .scene import Scene
from .table import FAULTS, Cell, Fault

PATIENCE = 200.0  # seconds until a launch has ended: more than any deadline that it has
HOSTS = ("--hosts", ",".join(f"{node}:2" for node in phases.NODES))
START = "90s"  # --start-timeout: longer than a fault before the start lasts
WAYS = {
    "ssh": ("--mode", "inside-out", "--connect", "ssh"),
    "pipe": ("--mode", "inside-out", "--connect", "pipe"),
    "outside": ("--mode", "outside-in", "--launcher", "mpirun"),
}


@dataclass(frozen=True)
class Played:
    """The end of a cell: what is left, the time from the fault to the launch's end, and from there until nothing was
    left.
    """

    result: Result
    left: tuple[str, ...]
    ended: float
    took: float

    def wrong(self, fault: Fault, phase: str) -> list[str]:
        """Return all that is not as it should be."""
        ends, words, found = fault.ends(phase), "\n".join(mine(self.result)), []
        if ends and self.result.code not in ends:
            found.append(f"the exit code is {self.result.code}, not {' or '.join(map(str, ends))}")
        if self.result.code and ends:
            found += [f"the message does not say {word!r}" for word in fault.says if word not in words]
        if "Traceback" in self.result.err:
            found.append("there is a traceback")
        return found + [f"left: {line}" for line in self.left]


def play(cluster: Cluster, cell: Cell) -> Played:
    """Play a cell on a cluster of its place."""
    fault, scene = FAULTS[cell.fault], Scene(cluster)
    with ExitStack() as stack:
        desk = stack.enter_context(cluster.desk())
        hold = stack.enter_context(phases.held(cluster, cell.phase, desk))
        before = checker.picture(cluster.model)
        act = ACTS[cell.fault](scene)
        stack.callback(act.close)
        next(act)
        job = stack.enter_context(cluster.running(_line(cell, hold)))
        hold.reached(job)
        next(act)
        begin = time.monotonic()
        if fault.lives or cell.phase != "prepare":
            hold.open()
        if fault.lives:
            hold.end()
        result = job.end(PATIENCE)
        ended = time.monotonic() - begin
        next(act, None)
        hold.open()  # a node that was off has forgotten it
        for name in ("go", "cache", "out"):
            cluster.root(LOGIN, "rm", "-rf", f"{desk.path}/{name}")
        left, took = _left(cluster, before, fault, fault.limit(cell.place))
    return Played(result, tuple(left), ended, took)


def _line(cell: Cell, hold: phases.Hold) -> list[str]:
    words = [*WAYS[cell.mode], "--start-timeout", START, *hold.image, "--", *hold.program]
    if cell.phase == "prepare" and cell.mode == "outside":
        words[1:4] = ["outside-in"]  # the image has no MPI
    if FAULTS[cell.fault].submitted:
        shape = ["-N2", "--ntasks-per-node=2", "-w", ",".join(phases.NODES), "-o", hold.output]
        return ["mnrun", "submit", "--wait", "--requeue", *shape, *words]
    if cell.place == "hosts":
        return ["mnrun", *HOSTS, *words]
    return ["salloc", "-Q", "-N2", "--ntasks-per-node=2", "-w", ",".join(phases.NODES), "mnrun", *words]


def _left(cluster: Cluster, before: checker.Picture, fault: Fault, limit: float) -> tuple[list[str], float]:
    """Return what is left, and the time until nothing was. Remains that are documented go with the next launch."""
    begin = time.monotonic()
    if fault.relaunch:
        wait_for(lambda: not cluster.mnruns(), "without mnrun", 10)
        if scene_jobs := Scene(cluster).jobs():  # of an salloc that was killed
            wait_for(lambda: _calm(cluster, before), "without processes", limit, lambda: _shown(cluster, before))
            cluster.root(LOGIN, "scancel", *scene_jobs)
        wait_for(lambda: idle(cluster), "idle", 90)
        done = cluster.mnrun(*MPIRUN.words, "--", "true", nodes=2)
        assert done.code == 0, done
    left, took = checker.wait_same(cluster.model, before, limit)
    wait_for(lambda: idle(cluster), "idle", 90)
    return left, took if not fault.relaunch else time.monotonic() - begin


def _shown(cluster: Cluster, before: checker.Picture) -> str:
    return "\n".join(checker.differences(before, checker.picture(cluster.model)))


def _calm(cluster: Cluster, before: checker.Picture) -> bool:
    """Return whether no process of a user is there that was not there before."""
    now = checker.differences(before, checker.picture(cluster.model))
    return not any("process of 1500" in line for line in now)


def idle(cluster: Cluster) -> bool:
    """Return whether no job is there, and each node is idle by Slurm's word."""
    words = cluster.root(LOGIN, "sh", "-c", "squeue -h -o job; sinfo -h -N -o %T").split()
    return set(words) == {"idle"}

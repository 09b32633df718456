"""Play a cell: start mnrun, wait for the phase, commit the fault, wait for the end, and look for what is left."""

from __future__ import annotations

import functools
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from typing import Union

from live.cells import INSIDE, MPIRUN, Way
from live.reports import mine
from live.stage import LOGIN, Cluster, Desk, Result, wait_for
from mnrun import nodeset

from . import checker, phases, pods
from .acts import ACTS
from .scene import RECORDS, Scene
from .table import ANY, FAULTS, KUBE, Cell, Fault

PATIENCE = 200.0  # seconds until a launch has ended: more than any deadline that it has
HOSTS = ("--hosts", ",".join(f"{node}:2" for node in phases.NODES))
START = "90s"  # --start-timeout: longer than a fault before the start lasts
WAYS = {
    "ssh": ("--mode", "inside-out", "--connect", "ssh"),
    "pipe": ("--mode", "inside-out", "--connect", "pipe"),
    "outside": ("--mode", "outside-in", "--launcher", "mpirun"),
    "call": ("--mode", "inside-out", "--connect", "pipe", "--reach", "call"),  # under Grid Engine and PBS alone
}

Hold = Union[phases.Hold, pods.Hold]
Held = Callable[[Cluster, str, Desk], AbstractContextManager[Hold]]


@dataclass(frozen=True)
class Played:
    """The end of a cell: what is left, the time from the fault to the launch's end, and from there until nothing was
    left.
    """

    result: Result
    left: tuple[str, ...]
    ended: float
    took: float
    names: Mapping[str, str] = field(default_factory=dict)  # of the nodes, where the launch has others

    def wrong(self, fault: Fault, phase: str, place: str = "") -> list[str]:
        """Return all that is not as it should be."""
        ends, words, found = fault.ends(phase, place), "\n".join(mine(self.result)), []
        if ends and self.result.code not in ends:
            found.append(f"the exit code is {self.result.code}, not {' or '.join(map(str, ends))}")
        if self.result.code and ends:
            says = (self.names.get(word, word) for word in fault.says)
            both = nodeset.fold(self.names.values())
            found += [
                f"the message does not say {word!r}"
                for word in says
                if word not in (words.replace(both, word) if both else words)
            ]
        if "Traceback" in self.result.err:
            found.append("there is a traceback")
        return found + [f"left: {line}" for line in self.left]


def play(cluster: Cluster, cell: Cell) -> Played:
    """Play a cell on a cluster of its place."""
    fault, scene, by_pods = FAULTS[cell.fault], Scene(cluster), cell.place in KUBE
    lives = fault.lives or cell.place in fault.outlived
    with ExitStack() as stack:
        desk = stack.enter_context(cluster.desk())
        held: Held = pods.held if by_pods else phases.held
        hold = stack.enter_context(held(cluster, cell.phase, desk))
        before = pods.picture(cluster) if by_pods else checker.picture(cluster.model)
        act = ACTS[cell.fault](scene)
        stack.callback(act.close)
        next(act)
        job = stack.enter_context(cluster.running(_line(cell, hold)))
        if not fault.refused:
            hold.reached(job)
        names = pods.names(cluster) if by_pods else {}
        next(act)
        begin = time.monotonic()
        if lives or cell.phase != "prepare":
            hold.open()
        if lives:
            hold.end()
        result = job.end(PATIENCE)
        result = replace(result, err=result.err + hold.written())
        ended = time.monotonic() - begin
        next(act, None)
        hold.open()  # a node that was off has forgotten it
        # Pods that nodes take only now mount `bin`. Without it they would wait for ever for a fault of the stage's own.
        late = by_pods and cell.phase == "prepare"
        for name in ("go", "cache", "out", "open", "eat", *(() if late else ("bin",))):
            cluster.root(LOGIN, "rm", "-rf", f"{desk.path}/{name}")
        if cell.place in ("sge", "pbs"):
            _forget(cluster)
        if by_pods:
            left, took = _left_of_pods(cluster, before, cell)
        else:
            left, took = _left(cluster, before, fault, fault.limit(cell.place))
    return Played(result, tuple(left), ended, took, names)


def _line(cell: Cell, hold: Hold) -> list[str]:
    if isinstance(hold, pods.Hold):
        return _line_of_pods(cell, hold)
    words = [*WAYS[cell.mode], "--start-timeout", START, *hold.image, "--", *hold.program]
    if cell.phase == "prepare" and cell.mode == "outside":
        words[1:4] = ["outside-in"]  # the image has no MPI
    fault = FAULTS[cell.fault]
    shape = ["-N2", "--ntasks-per-node=2", "-w", ",".join(phases.NODES), "-o", hold.output, *fault.asks]
    if fault.submitted:
        return ["mnrun", "submit", "--wait", "--requeue", *shape, *words]
    if cell.place == "sge":
        asked = [*shape, "--sge", f"-masterq all.q@{phases.NODES[0]}", *words]
        if not cell.fault.endswith("without -notify"):
            return ["mnrun", "submit", "--wait", "--poll", "2", *asked]
        script = shlex.join(["mnrun", "submit", "--dry-run", *asked])
        return ["sh", "-c", f"mnrun wait $({script} | sed '/-notify/d' | qsub -terse)"]
    if cell.place == "pbs":
        return ["mnrun", "submit", "--wait", "--poll", "2", *shape, *words]
    if cell.place == "hosts":
        return ["mnrun", *HOSTS, *words]
    return ["salloc", "-Q", "-N2", "--ntasks-per-node=2", "-w", ",".join(phases.NODES), "mnrun", *words]


# The output of a submitted job, the reason of its end, and its code. A connection to a lost node would end late.
FOLLOWED = """
id=$("$@") || exit
mnrun logs -f "$id" >&2 &
mnrun wait "$id"
code=$?
timeout 10 tail --pid=$! -f /dev/null || kill "$!"
mnrun why "$id" | sed 's/^/mnrun: /' >&2
exit "$code"
"""


def _line_of_pods(cell: Cell, hold: pods.Hold) -> list[str]:
    fault = FAULTS[cell.fault]
    again = ("--image", "localhost/none:1") if cell.fault.startswith("an image") else ()
    words = ["-N2", "--ntasks-per-node=2", "--start-timeout", "45s", *hold.image, *again, *fault.asks]
    if cell.place == "kube":
        return ["mnrun", "run", *words, "--", *hold.program]
    words += ["--kubernetes", f"launcher_image={pods.LAUNCHER}"]
    return ["sh", "-c", FOLLOWED, "sh", "mnrun", "submit", *words, "--", *hold.program]


def _left_of_pods(cluster: Cluster, before: checker.Picture, cell: Cell) -> tuple[list[str], float]:
    """Return what is left, and the time until nothing was. Pods end by themselves. Objects of a submitted job and of a
    killed mnrun stay until the user removes them."""
    begin, fault = time.monotonic(), FAULTS[cell.fault]
    limit = fault.limit(cell.place)
    if left := pods.quiet(cluster, limit):
        return left, time.monotonic() - begin
    if cell.place == "kubejob":
        for job in pods.launches(cluster):
            cluster.alice(["mnrun", "cancel", job])
    elif fault.ends(cell.phase) == ANY:
        cluster.alice(["mnrun", "clean"])
    _forget(cluster)
    left, _ = checker.wait_same(cluster.model, before, limit, lambda _: pods.picture(cluster))
    took = time.monotonic() - begin
    wait_for(lambda: idle(cluster), "idle", 90)
    return left, took


def _left(cluster: Cluster, before: checker.Picture, fault: Fault, limit: float) -> tuple[list[str], float]:
    """Return what is left, and the time until nothing was. Remains that are documented go with the next launch."""
    begin = time.monotonic()
    if fault.relaunch:
        wait_for(lambda: not cluster.mnruns(), "without mnrun", 10)
        if scene_jobs := Scene(cluster).jobs():  # of an salloc that was killed
            wait_for(lambda: _calm(cluster, before), "without processes", limit, lambda: _shown(cluster, before))
            cluster.delete(scene_jobs)
        wait_for(lambda: idle(cluster), "idle", 90)
        again(cluster)
    left, took = checker.wait_same(cluster.model, before, limit)
    wait_for(lambda: idle(cluster), "idle", 90)
    return left, took if not fault.relaunch else time.monotonic() - begin


def again(cluster: Cluster, way: Way = MPIRUN) -> None:
    """Launch once, at the place of that cluster."""
    if cluster.model.options().scheduler != "slurm":
        shape = ["-N2", "--ntasks-per-node=2", "-w", ",".join(phases.NODES)]
        done = cluster.alice(["mnrun", "submit", "--wait", *shape, "-o", "/dev/null", *way.words, "--", "true"])
        _forget(cluster)
    else:
        done = cluster.mnrun(*way.words, "--", "true", nodes=2)
    assert done.code == 0, done


@functools.cache
def warm(name: str) -> None:
    """Launch once in each mode, so that what mnrun keeps for the next launch is there before the first picture."""
    for way in (INSIDE, MPIRUN):
        again(Cluster(name), way)


def _forget(cluster: Cluster) -> None:
    """Remove what a submitted job keeps."""
    file = f"{cluster.model.options().scheduler}.json"
    cluster.root(LOGIN, "sh", "-c", f"rm -rf {RECORDS}/{file} {RECORDS}/jobs/*")


def _shown(cluster: Cluster, before: checker.Picture) -> str:
    return "\n".join(checker.differences(before, checker.picture(cluster.model)))


def _calm(cluster: Cluster, before: checker.Picture) -> bool:
    """Return whether no process of a user is there that was not there before."""
    now = checker.differences(before, checker.picture(cluster.model))
    return not any("process of 1500" in line for line in now)


def idle(cluster: Cluster) -> bool:
    """Return whether no job is there, and each node is idle by the scheduler's word."""
    return not cluster.busy()

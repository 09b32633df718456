"""Carry out PREPARE: bring the image to every node before anything else starts there.

The nodes pull the image of a registry by themselves. If an image file is staged, they say whether they have a copy, and
mnrun sends one to those that lack it. The standard input of this step is a lease, too. At its end, the nodes remove
every unfinished image.
"""

from __future__ import annotations

import getpass
import os
import queue
import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun import nodeset
from mnrun.errors import DeadlineError, LaunchError, NodeError, RuntimeFailed
from mnrun.jobspec import Image, ImageKind, JobSpec
from mnrun.model import Command, Layout, Phase, Plan, Site
from mnrun.nodes import kit
from mnrun.nodes.status import Roster
from mnrun.planning import plan as planner
from mnrun.planning.commands import carry
from mnrun.running.reasons import job_over
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers import BATCH, SCHEDULERS
from mnrun.system import clock
from mnrun.system.process import Event, Running, Starter, Stopped, starting
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.images.staged import Source

MOMENT = 3.0  # seconds that the other nodes have to report their own failures
FAREWELL = 10.0  # seconds that the nodes have to remove unfinished images
# The guard's words for a container that has not started.
_NO_START = re.compile(r"its container ended with|is not a container image|input/output error", re.IGNORECASE)
FATAL = 255  # of Apptainer that cannot start a rank's container
IN_DOUBT = "the next launch checks the image in the cache for damage"
UNSTAGED = "--no-stage makes the nodes read the image where it is"


def prepare(
    plan: Plan,
    site: Site,
    environ: Mapping[str, str],
    events: queue.SimpleQueue[Event],
    screen: Screen,
    starter: Starter,
) -> Plan:
    """Return the plan with the name that the image has on every node. Raises LaunchError, or Stopped at a signal.

    Signals arrive in `events`. No event of the step is left in it.
    """
    if not any(step.phase is Phase.PREPARE for step in plan.steps):
        return plan
    work = _Bringing(plan, site, environ, events, screen, starter)
    try:
        work.bring()
    finally:
        work.end()
    image = _same(plan, work.roster)
    for event in work.later:
        events.put(event)
    if work.told:
        screen.say(f"{plan.spec.container.image} is {image}, after {time.monotonic() - work.begin:.0f} s")
    return planner.with_image(plan, image)


@contextmanager
def doubting(plan: Plan) -> Iterator[None]:
    """Enclose a launch. If its container cannot start, the image in the cache may be damaged, and is in doubt."""
    try:
        yield
    except (NodeError, RuntimeFailed) as error:
        if not _NO_START.search(error.message) or not doubt(plan.spec):
            raise
        remedy = "; ".join(filter(None, (error.remedy, IN_DOUBT)))
        raise type(error)(error.message, remedy, *error.more) from None


def doubt(spec: JobSpec) -> bool:
    """Put the image of a job in doubt. Return whether it is one of the cache."""
    container = spec.container
    if not container.by_reference or RUNTIMES[container.runtime].NAMED:
        return False
    from mnrun.images import cache

    file = cache.find(Path(container.image_cache), container.image_name)
    if file:
        cache.doubt(file)
    return file is not None


def doubt_fatal(spec: JobSpec, code: int, screen: Screen) -> None:
    """Put the image of a job in doubt if `code` is that of a runtime that could not start a rank's container."""
    if code == FATAL and doubt(spec):
        screen.say(IN_DOUBT)


class _Bringing:
    """PREPARE under way: its commands, and the words of its nodes."""

    def __init__(
        self,
        plan: Plan,
        site: Site,
        environ: Mapping[str, str],
        events: queue.SimpleQueue[Event],
        screen: Screen,
        starter: Starter,
    ) -> None:
        self.plan = plan
        self.site = site
        self.environ = environ
        self.events = events
        self.screen = screen
        self.starter = starter
        self.source: Source | None = None  # the image file, if it is staged
        self.copy = ""  # its path on the nodes
        self.step: Running  # the step that brings the image
        self.roster = Roster(plan.layout.nodes)
        self.begin = time.monotonic()
        self.deadline = self.begin + plan.spec.container.pull_timeout
        self.running: dict[str, Running] = {}  # the commands that have not ended
        self.noise: list[str] = []
        self.later: list[Event] = []  # signals for the program
        self.told = False  # the user was told that this takes time
        self.shown = ""

    def bring(self) -> None:
        """Bring the image to every node."""
        container = self.plan.spec.container
        if self.plan.spec.staged:
            from mnrun.images import staged

            self.screen.phase(f"reading {container.image_name}")
            self.source = staged.source(container.image_name, Path(container.image_cache), self._glance)
            self.copy = self.source.copy(container.stage_dir, getpass.getuser())
        self._start_step("prepare", self.plan.layout.nodes)
        self._listen()
        if self.roster.lacking and self.roster.images:
            # A copy goes to all nodes of a step. So the nodes that lack it get one of their own.
            lacking = tuple(self.roster.lacking)
            self.end()
            for kind, _, data in self.later:
                if kind == "signal":
                    raise Stopped(int(str(data)))
            self.roster.lacking.clear()
            self._start_step("again", lacking)
            self._listen()
        if self.roster.lacking:
            self._start_copy()
            self._listen()

    def end(self) -> None:
        """Close the step's lease, and wait for the end of all commands."""
        for name, command in self.running.items():
            command.end(signal.SIGTERM) if name == "copy" else command.close()
        deadline = time.monotonic() + FAREWELL
        while self.running:
            event = clock.take(self.events, deadline)
            if event is None:
                for command in self.running.values():
                    command.end(signal.SIGKILL)
                self.running.clear()
                return
            kind, name, data = event
            if kind == "ended":
                self.running.pop(name, None)
            elif kind in ("signal", "told"):
                self.later.append((kind, name, data))

    def _glance(self) -> None:
        """Take in signals that have arrived."""
        while not self.events.empty():
            event = self.events.get()
            if event[0] == "signal":
                raise Stopped(int(str(event[2])))
            self.later.append(event)

    def _start_step(self, name: str, nodes: tuple[str, ...]) -> None:
        plan, source = self.plan, self.source
        if nodes != plan.layout.nodes:
            plan = replace(plan, layout=Layout(nodes, (1,) * len(nodes)))
        step = self.step = self._start(name, carry(plan, self.site)[Phase.PREPARE])
        pulse = SCHEDULERS[self.site.scheduler].CLIENT
        copy = (self.copy, source.size) if source else None
        step.send(kit.prepare_input(plan.spec, self.environ, pulse, copy))
        if pulse:
            step.pulse()

    def _start_copy(self) -> None:
        """Start to copy the image file to the nodes of the step, all of which lack it."""
        assert self.source is not None
        lacking, source = self.roster.lacking, self.source
        step = next(iter(lacking.values()))
        if not re.fullmatch(r"\d+\.\d+", step):
            raise NodeError(f"{next(iter(lacking))} names its step {step!r}, which is not JOB.STEP", UNSTAGED)
        self.told = True
        nodes = nodeset.fold(lacking)
        self.screen.say(f"copying {source.path} ({source.size >> 20} MB) to {nodes}")
        self.screen.phase(f"copying: {nodes}")
        target = f"{os.path.dirname(self.copy)}/{self.plan.job}.part"
        self._start("copy", Command(BATCH[self.site.scheduler].copying(source.path, target, step)), UNSTAGED)

    def _start(self, name: str, command: Command, remedy: str = "") -> Running:
        self.screen.command(kit.typed(command))
        with starting(command.argv[0], remedy):
            piped = name != "copy"  # a copy has no lease, and gets a TERM when mnrun is killed
            self.running[name] = self.starter(name, command, dict(self.environ), self.events, piped, apart=not piped)
        return self.running[name]

    def _listen(self) -> None:
        """Wait until no copy is under way, and every node has the image or has said that it lacks it."""
        roster = self.roster
        while "copy" in self.running or len(roster.images) + len(roster.lacking) < len(roster.nodes):
            event = clock.take(self.events, self.deadline)
            if event is None:
                raise self._late()
            kind, name, data = event
            if kind == "signal":
                raise Stopped(int(str(data)))
            if kind == "told":
                self.later.append((kind, name, data))
            elif name not in self.running:
                pass  # the first step, which did not end in time
            elif kind == "ended":
                self._ended(name, int(str(data)))
            else:
                self._hear(name, str(data))

    def _hear(self, name: str, line: str) -> None:
        roster, container = self.roster, self.plan.spec.container
        if (name == "copy" or not roster.hear(line)) and line:
            self.noise.append(line)
        if roster.lost and not roster.failed:
            raise NodeError(nodeset.folded({node: roster.why(node, {}) for node in roster.lost}))
        if roster.failed:
            if roster.settled:
                raise self._failed()
            self.deadline = min(self.deadline, time.monotonic() + MOMENT)
        elif roster.pulling and self.source is None:
            if not self.told:
                self.screen.say(f"pulling {container.image}, for {container.pull_timeout} s at most (--pull-timeout)")
                self.told = True
            if self.events.empty():  # thousands of nodes send too many words to show each
                now = nodeset.folded(roster.pulling)
                if now != self.shown:
                    self.screen.phase(f"pulling: {now}")
                self.shown = now

    def _ended(self, name: str, code: int) -> None:
        """Take in the end of a command: of a copy that has arrived, or too early."""
        self.running.pop(name, None)
        if name == "copy" and code == 0:
            self.roster.lacking.clear()
            self.step.send(b"take\n")
            return
        if self.roster.failed:
            raise self._failed()
        scheduler = SCHEDULERS[self.site.scheduler]
        over = job_over(self.plan.spec, self.site, scheduler.ending(self.site), scheduler)
        if over is not None:
            raise over
        image, messages = self.plan.spec.container.image, " | ".join(self.noise[-3:]) or "without a message"
        if name == "copy":
            nodes = nodeset.fold(self.roster.lacking)
            raise NodeError(f"{image} could not be copied to {nodes} ({messages})", UNSTAGED)
        raise NodeError(f"the step that brings {image} ended ({messages})")

    def _late(self) -> LaunchError:
        roster, container = self.roster, self.plan.spec.container
        if roster.failed:
            return self._failed()
        missing = {
            node: roster.pulling.get(node, "no answer from it") for node in roster.nodes if node not in roster.images
        }
        problem = f"{container.image} is not there after {container.pull_timeout} s: {nodeset.folded(missing)}"
        return DeadlineError(problem, "--pull-timeout allows more time for the phase prepare")

    def _failed(self) -> LaunchError:
        roster = self.roster
        why = nodeset.folded(roster.failed)
        return (
            RuntimeFailed(why)
            if roster.unpulled
            else NodeError(f"{len(roster.failed)} of {nodeset.counted(len(roster.nodes), 'node')} not ready: {why}")
        )


def _same(plan: Plan, roster: Roster) -> Image:
    """Return the image that all nodes share. Raise NodeError if their images differ."""
    digests = {node: digest for node, (digest, _) in roster.images.items()}
    if len(set(digests.values())) > 1:
        problem = f"{plan.spec.container.image} is not the same on all nodes: {nodeset.folded(digests)}"
        raise NodeError(problem, "use --pull always, or load the same image on each node")
    places = {place for _, place in roster.images.values()}
    kind = ImageKind.STORED if RUNTIMES[plan.spec.container.runtime].NAMED else ImageKind.FILE
    # Where places differ, the same image has another id on each node.
    return Image(kind, places.pop() if len(places) == 1 else plan.spec.container.image_name)

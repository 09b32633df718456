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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mnrun import formats, nodeset
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
from mnrun.system.events import Ended, Event, Line, Lost, Noise, Signal, Told
from mnrun.system.process import Running, Starter, Stopped, starting
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.images.staged import Source
    from mnrun.reach.leases import ChannelLease

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
    """Return the plan with the name that the image has on every node, and leave only signals in `events`. Raises
    LaunchError, or Stopped."""
    if not any(step.phase is Phase.PREPARE for step in plan.steps):
        return plan
    work = _Delivery(plan, site, environ, events, screen, starter)
    try:
        work.bring()
    finally:
        work.end()
    image = _same(plan, work.roster)
    for event in work.later:
        events.put(event)
    if work.announced:
        took = f"{_size(image)}, after {time.monotonic() - work.begin:.0f} s"
        screen.say(f"{plan.spec.container.image} is {image}{took}")
    return planner.with_image(plan, image)


def _size(image: Image) -> str:
    """Return the size of an image file, in words, or "" where this machine does not see it."""
    try:
        return f", {formats.size(os.path.getsize(str(image)))}" if image.kind is ImageKind.FILE else ""
    except OSError:
        return ""


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
    if not container.by_reference or RUNTIMES[container.runtime].HAS_STORE:
        return False
    from mnrun.images import cache

    file = cache.find(Path(container.image_cache), container.image_name)
    if file:
        cache.doubt(file)
    return file is not None


@dataclass
class _Delivery:
    """PREPARE under way: its commands, and the words of its nodes."""

    plan: Plan
    site: Site
    environ: Mapping[str, str]
    events: queue.SimpleQueue[Event]
    screen: Screen
    starter: Starter
    source: Source | None = None  # the image file, if it is staged
    copy: str = ""  # its path on the nodes
    running: dict[str, Running] = field(default_factory=dict)  # the commands that have not ended
    noise: list[str] = field(default_factory=list)
    later: list[Event] = field(default_factory=list)  # signals for the program
    announced: bool = False  # the user knows that this takes time
    shown: tuple[str, str] = "", ""

    def __post_init__(self) -> None:
        self.roster = Roster(self.plan.layout.nodes)
        self.begin = time.monotonic()
        self.deadline = self.begin + self.plan.spec.container.pull_timeout

    def bring(self) -> None:
        container = self.plan.spec.container
        if self.plan.spec.staged:
            from mnrun.images import staged

            self.screen.phase(f"reading {container.image_name}")
            self.source = staged.source(container.image_name, Path(container.image_cache), self._take_signals)
            self.copy = self.source.copy(container.stage_dir, getpass.getuser())
        self._start_step("prepare", self.plan.layout.nodes)
        self._listen()
        if self.roster.lacking and self.roster.images:
            # A copy goes to all nodes of a step. So the nodes that lack it get one of their own.
            lacking = tuple(self.roster.lacking)
            self.end()
            for event in self.later:
                if isinstance(event, Signal):
                    raise Stopped(event.signum)
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
            if isinstance(event, Ended):
                self.running.pop(event.name, None)
            elif isinstance(event, (Signal, Told)):
                self.later.append(event)

    def _take_signals(self) -> None:
        while not self.events.empty():
            event = self.events.get()
            if isinstance(event, Signal):
                raise Stopped(event.signum)
            self.later.append(event)

    def _start_step(self, name: str, nodes: tuple[str, ...]) -> None:
        plan, source = self.plan, self.source
        if nodes != plan.layout.nodes:
            plan = plan._replace(layout=Layout(nodes, (1,) * len(nodes)))
        step = self._step = self._start(name, carry(plan, self.site)[Phase.PREPARE])
        pulse = SCHEDULERS[self.site.scheduler].SINGLE
        copy = (self.copy, source.size) if source else None
        step.send(kit.prepare_input(plan, self.environ, pulse, copy))
        if pulse:
            step.pulse()

    def _start_copy(self) -> None:
        """Start to copy the image file to the nodes of the step, all of which lack it."""
        from mnrun.images import staged

        assert self.source is not None
        lacking, source = self.roster.lacking, self.source
        self.announced = True
        nodes = nodeset.fold(lacking)
        self.screen.say(f"copying {source.path} ({formats.size(source.size)}) to {nodes}")
        self.screen.phase(f"copying: {nodes}")
        if self.plan.channels:
            lacking.clear()
            self._step.send(b"copy %d\n" % source.size)
            cast("ChannelLease", self._step).feed(lambda: staged.chunks(source.path))
            return
        node, step = next(iter(lacking.items()))
        if not re.fullmatch(r"\d+\.\d+", step):
            raise NodeError(f"{node} names its step {step!r}, which is not JOB.STEP", UNSTAGED)
        target = f"{os.path.dirname(self.copy)}/{self.plan.job}.part"
        self._start("copy", Command(BATCH[self.site.scheduler].copying(source.path, target, step)), UNSTAGED)

    def _start(self, name: str, command: Command, remedy: str = "") -> Running:
        self.screen.command(kit.typed(command, SCHEDULERS[self.site.scheduler].CLIENT))
        with starting(command.argv[0], remedy):
            piped = name != "copy"  # a copy has no lease, and gets a TERM when mnrun is killed
            self.running[name] = self.starter(name, command, dict(self.environ), self.events, piped, noise=not piped)
        return self.running[name]

    def _listen(self) -> None:
        roster = self.roster
        while "copy" in self.running or len(roster.images) + len(roster.lacking) < len(roster.nodes):
            event = clock.take(self.events, self.deadline)
            if event is None:
                raise self._late()
            if isinstance(event, Signal):
                raise Stopped(event.signum)
            if isinstance(event, Told):
                self.later.append(event)
            elif isinstance(event, (Ended, Line, Lost, Noise)) and event.name in self.running:  # no late step
                self._take(event)

    def _take(self, event: Ended | Line | Lost | Noise) -> None:
        if isinstance(event, Ended):
            self._ended(event.name, event.code)
            return
        if isinstance(event, Lost):
            self.roster.lose((event.node,), event.why)
        elif (event.name == "copy" or not self.roster.hear(event.text)) and event.text:
            self.noise.append(event.text)
        self._judge()

    def _judge(self) -> None:
        """Raise NodeError if a node cannot have the image. Else show the progress."""
        roster, container = self.roster, self.plan.spec.container
        if roster.lost and not roster.failed:
            raise NodeError(nodeset.folded({node: roster.why(node, {}) for node in roster.lost}))
        if roster.failed:
            if roster.settled:
                raise self._failed()
            self.deadline = min(self.deadline, time.monotonic() + MOMENT)
        elif roster.pulling and self.source is None:
            if not self.announced:
                self.screen.say(f"pulling {container.image}, for {container.pull_timeout} s at most (--pull-timeout)")
                self.announced = True
            if self.events.empty():  # thousands of nodes send too many words to show each
                now = f"pulling: {nodeset.folded(roster.pulling)}", roster.come
                if now != self.shown:
                    self.screen.phase(*now)
                self.shown = now

    def _ended(self, name: str, code: int) -> None:
        """Take in the end of a command: of a copy that has arrived, or too early."""
        self.running.pop(name, None)
        if name == "copy" and code == 0:
            self.roster.lacking.clear()
            self._step.send(b"take\n")
            return
        if self.roster.failed:
            raise self._failed()
        scheduler = SCHEDULERS[self.site.scheduler]
        state = scheduler.ending(self.site, self.environ)
        over = job_over(self.plan.spec, self.site, state, scheduler, self.environ)
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
        lacking = [node for node in roster.nodes if node not in roster.images]
        missing = {node: roster.pulling.get(node, "no answer from it") for node in lacking}
        problem = f"{container.image} is not there after {container.pull_timeout} s: {nodeset.folded(missing)}"
        return DeadlineError(problem, "--pull-timeout allows more time for the phase prepare")

    def _failed(self) -> LaunchError:
        roster, why = self.roster, nodeset.folded(self.roster.failed)
        if roster.unpulled:
            return RuntimeFailed(why)
        return NodeError(f"{len(roster.failed)} of {nodeset.counted(len(roster.nodes), 'node')} not ready: {why}")


def _same(plan: Plan, roster: Roster) -> Image:
    """Return the image that all nodes share. Raise NodeError if their images differ."""
    digests = {node: digest for node, (digest, _) in roster.images.items()}
    if len(set(digests.values())) > 1:
        problem = f"{plan.spec.container.image} is not the same on all nodes: {nodeset.folded(digests)}"
        raise NodeError(problem, "use --pull always, or load the same image on each node")
    names = {name for _, name in roster.images.values()}
    kind = ImageKind.STORED if RUNTIMES[plan.spec.container.runtime].HAS_STORE else ImageKind.FILE
    # Where names differ, the same image has another id on each node.
    return Image(kind, names.pop() if len(names) == 1 else plan.spec.container.image_name)

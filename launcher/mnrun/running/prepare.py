"""Carry out PREPARE: bring a registry's image to every node before anything else starts there.

The standard input of this step is a lease, too. At its end, the nodes remove every unfinished image.
"""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Mapping

from mnrun import nodeset
from mnrun.errors import DeadlineError, LaunchError, NodeError, RuntimeFailed
from mnrun.jobspec import Image, ImageKind
from mnrun.model import Phase, Plan, Site
from mnrun.nodes import kit
from mnrun.nodes.status import Roster
from mnrun.planning import plan as planner
from mnrun.planning.commands import carry
from mnrun.running.reasons import job_over
from mnrun.runtimes import RUNTIMES
from mnrun.schedulers import SCHEDULERS
from mnrun.system.process import Event, Running, Starter, Stopped, starting
from mnrun.system.screen import Screen

MOMENT = 3.0  # seconds that the other nodes have to report their own failures
FAREWELL = 10.0  # seconds that the nodes have to remove unfinished images


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
    command = carry(plan, site).get(Phase.PREPARE)
    if command is None:
        return plan
    screen.command(kit.typed(command))
    with starting(command.argv[0]):
        step = starter("prepare", command, dict(environ), events, piped=True)
    begin, roster = time.monotonic(), Roster(plan.layout.nodes)
    try:
        pulse = SCHEDULERS[site.scheduler].CLIENT
        step.send(kit.prepare_input(plan.spec, environ, pulse))
        if pulse:
            step.pulse()
        pulls = _listen(plan, site, roster, events, screen)
    finally:
        _end(step, events)
    image = _same(plan, roster)
    if pulls:
        screen.say(f"{plan.spec.container.image} is {image}, after {time.monotonic() - begin:.0f} s")
    return planner.with_image(plan, image)


def _listen(plan: Plan, site: Site, roster: Roster, events: queue.SimpleQueue[Event], screen: Screen) -> bool:
    """Wait until every node has the image. Return whether a node had to pull it."""
    container = plan.spec.container
    deadline = time.monotonic() + container.pull_timeout
    pulls = False
    shown = ""
    noise: list[str] = []
    later: list[Event] = []  # signals for the program
    while len(roster.images) < len(roster.nodes):
        try:
            kind, name, data = events.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise _late(plan, roster) from None
        if kind == "signal":
            raise Stopped(int(str(data)))
        if kind == "told":
            later.append((kind, name, data))
            continue
        if kind == "ended":
            events.put((kind, "prepare", data))  # `_end` waits for it
            raise _ended(plan, site, roster, noise)
        if not roster.hear(str(data)) and data:
            noise.append(str(data))
        _refuse_failures(roster)
        if roster.failed:
            deadline = min(deadline, time.monotonic() + MOMENT)
        elif roster.pulling:
            if not pulls:
                screen.say(f"pulling {container.image}, for {container.pull_timeout} s at most (--pull-timeout)")
                pulls = True
            if events.empty():  # thousands of nodes send too many words to show each
                now = nodeset.folded(roster.pulling)
                if now != shown:
                    screen.phase(f"pulling: {now}")
                shown = now
    for event in later:
        events.put(event)
    return pulls


def _refuse_failures(roster: Roster) -> None:
    """Raise the error of a node that is lost, or of nodes that failed once every node has answered."""
    if roster.lost and not roster.failed:
        raise NodeError(nodeset.folded({node: roster.why(node, {}) for node in roster.lost}))
    if roster.failed and roster.settled:
        raise _failed(roster)


def _late(plan: Plan, roster: Roster) -> LaunchError:
    if roster.failed:
        return _failed(roster)
    missing = {
        node: roster.pulling.get(node, "no answer from it") for node in roster.nodes if node not in roster.images
    }
    image, limit = plan.spec.container.image, plan.spec.container.pull_timeout
    problem = f"{image} is not there after {limit} s: {nodeset.folded(missing)}"
    return DeadlineError(problem, "--pull-timeout allows more time for the phase prepare")


def _failed(roster: Roster) -> LaunchError:
    why = nodeset.folded(roster.failed)
    return (
        RuntimeFailed(why)
        if roster.unpulled
        else NodeError(f"{len(roster.failed)} of {nodeset.counted(len(roster.nodes), 'node')} not ready: {why}")
    )


def _ended(plan: Plan, site: Site, roster: Roster, noise: list[str]) -> LaunchError:
    """Return the error for a step that has ended before every node has the image."""
    if roster.failed:
        return _failed(roster)
    scheduler = SCHEDULERS[site.scheduler]
    over = job_over(plan.spec, site.job, scheduler.ending(site), scheduler)
    if over is not None:
        return over
    messages = " | ".join(noise[-3:]) or "without a message"
    return NodeError(f"the step that pulls {plan.spec.container.image} ended ({messages})")


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


def _end(step: Running, events: queue.SimpleQueue[Event]) -> None:
    """Close the step's lease, and wait for its end. Signals after the first have no effect here."""
    step.close()
    deadline = time.monotonic() + FAREWELL
    while True:
        try:
            kind, name, _ = events.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            step.end(signal.SIGKILL)
            return
        if (kind, name) == ("ended", "prepare"):
            return

"""Ask the nodes of a running launch at intervals what it uses there."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Generator, Iterator, Mapping

from mnrun import nodeset
from mnrun.attach.target import on_nodes
from mnrun.errors import NodeError
from mnrun.jobs.launches import LaunchRecord
from mnrun.model import Command
from mnrun.nodes import kit
from mnrun.schedulers import SCHEDULERS
from mnrun.system import clock, process
from mnrun.system.events import Ended, Event, Line, Noise
from mnrun.watching import samples
from mnrun.watching.now import Now

FIRST, LEAVE = 20.0, 5.0  # seconds for the first samples of all nodes, and for the clients to end


def ticks(target: LaunchRecord, seconds: int, environ: Mapping[str, str], now: Now) -> Generator[None, None, None]:
    """Take samples into `now`, and yield at these intervals, first when all nodes have two. End with the job. Raise
    NodeError if no node answers.

    A sampler ends with its input. So none is left when this process is killed.
    """
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    by_name = {nodeset.fold(nodes): (nodes, command) for nodes, command in _commands(target, seconds)}
    running, noise = {}, ""
    try:
        for name, (_, command) in by_name.items():
            with process.starting(command.argv[0], "go to a machine that has it"):
                running[name] = process.start(name, command, dict(environ), events, piped=True)
        due = time.monotonic() + FIRST
        first = True
        while running:
            event = clock.take(events, due)
            if isinstance(event, Line):
                now.take(samples.read(event.text))
            elif isinstance(event, Noise):
                noise = SCHEDULERS[target.scheduler].CLIENT_LINES.own.words(event.text) or noise
            elif isinstance(event, Ended):
                running.pop(event.name)
                now.lose(by_name[event.name][0] if running else ())
            if (event is None or (first and now.known)) and not now.silent:
                yield
                due, first = time.monotonic() + seconds, False
            elif event is None:
                break
        if now.silent:
            raise NodeError(f"no node of job {target.name} told what it uses: {noise or 'no answer'}", "see mnrun why")
    finally:
        for child in running.values():
            child.close()
        deadline = time.monotonic() + LEAVE
        for child in running.values():
            if not child.wait(max(0.0, deadline - time.monotonic())):
                child.end(signal.SIGTERM)


def _commands(target: LaunchRecord, seconds: int) -> Iterator[tuple[list[str], Command]]:
    """Yield nodes and the command that samples them: one for all that have as many GPUs, or one for each node."""
    words = kit.sample(target.node_dir, seconds)
    groups: dict[int | str, list[str]] = {}
    single = SCHEDULERS[target.scheduler].SINGLE
    for node in target.nodes:
        groups.setdefault(target.gpus.get(node, 0) if single else node, []).append(node)
    for nodes in groups.values():
        yield nodes, on_nodes(target, nodes, words)[0]

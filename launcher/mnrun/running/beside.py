"""Find the running job beside whose ranks a launch is to run, and reach its node by the job's own ways."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnrun.attach import meant, target, user
from mnrun.files import BASH, spoken
from mnrun.jobs import launches
from mnrun.jobs.launches import LaunchRecord
from mnrun.model import Command, Words
from mnrun.reach.channel import Channel, Marked
from mnrun.reach.transport import Transport
from mnrun.running.nodes import Held
from mnrun.schedulers import BATCH, SCHEDULERS
from mnrun.system.events import Event
from mnrun.system.process import ProcessChannel, Running

PATIENCE = 3.0  # seconds in which the end of a job becomes known


@dataclass(frozen=True)
class Beside:
    """A node of a running job."""

    launch: LaunchRecord
    node: str
    bases: tuple[Path, ...]  # the directories of jobs' records

    @property
    def options(self) -> dict[str, object]:
        """Return the container of the job, as options."""
        own = {"image": self.launch.image, "runtime": self.launch.runtime}
        return {name: value for name, value in own.items() if value}

    @contextmanager
    def reached(self, environ: Mapping[str, str]) -> Iterator[Transport]:
        """Yield the transport to the node."""
        yield BesideTransport(self, environ)

    def around(self, held: Held, folder: str) -> Held:
        """Return a launch on the node as one that ends with the job around it. A pod has a `folder` of its own."""
        launch, spec = self.launch, held.spec
        site = held.site._replace(beside=launch.name, around=(launch.scheduler, launch.number))
        pods = launch.scheduler in BATCH and BATCH[launch.scheduler].pod({}) is not None
        if pods and "chdir" not in spec.origins:
            spec = spec._replace(program=spec.program._replace(chdir=folder))
        return held._replace(spec=spec, site=site, around=lambda: self._runs(held.environ))

    def _runs(self, environ: Mapping[str, str]) -> bool:
        """Return whether the job goes on. Its scheduler and its own launcher may learn of its end later than a node."""
        late = time.monotonic() + PATIENCE
        while SCHEDULERS[self.launch.scheduler].runs(self.launch.number, environ) and launches.running(
            self.bases, self.launch.job
        ):
            if time.monotonic() > late:
                return True
            time.sleep(0.5)
        return False


def found(identity: str, node: str, job_dir: object, environ: Mapping[str, str]) -> Beside:
    """Return a node of the running job of this id or name, or its first one. Raises LaunchError."""
    bases = user.bases(str(job_dir) if job_dir else None)
    launch = target.entered(meant.running(identity, bases), bases, environ)
    return Beside(launch, target.node(launch, None, node, environ), bases)


class _Client(ProcessChannel):
    """A client whose sudden end could end the whole job (reach/gentle.py)."""

    def cut(self) -> None:
        self.tell(signal.SIGTERM)


class BesideTransport(Transport):
    """The way to a node of a running job. Its commands carry no mark of the job, but a process that hands the lease on
    does. So the job ends that process, and then the launch ends by itself."""

    def __init__(self, beside: Beside, environ: Mapping[str, str]) -> None:
        super().__init__((beside.node,), lambda node, line, terminal: ())
        self._launch = beside.launch
        self._environ = dict(SCHEDULERS[beside.launch.scheduler].client_environment(environ))

    def connect(self, node: str, argv: Words) -> Channel:
        command = target.on_nodes(self._launch, [node], argv, whole_lines=False, marked=False)[0]
        channel = _Client(command.argv, environ=self._environ)
        return Marked(channel, command.mark) if command.mark else channel

    def start(
        self,
        name: str,
        command: Command,
        environ: dict[str, str],
        events: queue.SimpleQueue[Event],
        piped: bool,
        **how: Any,
    ) -> Running:
        if name == "serve":
            words = (*BASH, "-c", spoken("around.sh"), self._launch.job, *command.argv)
            command = command._replace(argv=words)
        return super().start(name, command, environ, events, piped, **how)

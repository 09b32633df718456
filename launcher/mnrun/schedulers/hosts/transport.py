"""Start commands on several hosts, without a scheduler that starts and watches them.

Each transport opens channels in its own way, by paramiko or by an ssh client. A lease has one channel to every host.
The program has one to the first.
"""

from __future__ import annotations

import abc
import errno
import queue
import resource
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mnrun.model import Command, Words
from mnrun.schedulers.hosts.channel import Answer, Channel, Unopened, answer
from mnrun.schedulers.hosts.leases import ChannelLease
from mnrun.schedulers.hosts.program import Program
from mnrun.system.process import Event, Output, Running

AT_ONCE = 32  # hosts at a time
ASK = 60.0  # seconds for a host to answer a short question
FILES, FILES_EACH = 256, 8  # open files: for everything else, and for each host
T = TypeVar("T")


class Transport(abc.ABC):
    """A connection to the hosts of a job, which starts commands on them. `start` is a system.process.Starter."""

    def __init__(self, hosts: Words) -> None:
        self.hosts = hosts

    @abc.abstractmethod
    def connect(self, node: str, argv: Words) -> Channel:
        """Start a command on one host. Raises any error of the connection."""

    @abc.abstractmethod
    def prompt(
        self, name: str, node: str, argv: Words, environ: dict[str, str], events: queue.SimpleQueue[Event]
    ) -> Running:
        """Start a command on one host that has mnrun's terminal."""

    def lease(self, name: str, command: Command, events: queue.SimpleQueue[Event]) -> Running:
        """Start a command on its nodes, with a lease."""
        return ChannelLease(
            name, each(command.nodes, lambda node: self._channel(node, with_node_name(node, command))), events
        )

    def start(
        self,
        name: str,
        command: Command,
        environ: dict[str, str],
        events: queue.SimpleQueue[Event],
        piped: bool,
        *,
        terminal: bool = False,
        apart: bool = False,
        output: Output = (None, None),
    ) -> Running:
        """Start a command on its nodes."""
        if piped:
            return self.lease(name, command, events)
        (node,) = command.nodes
        argv = with_node_name(node, command)
        if terminal:
            return self.prompt(name, node, argv, environ, events)
        return Program(name, node, self._channel(node, argv), events, output)

    def ask(
        self, argv: Words, data: bytes = b"", only: Sequence[str] | None = None, seconds: float = ASK
    ) -> dict[str, Answer]:
        """Return the answers of all hosts, or of `only` some, to a command with `data` on its input."""
        return self.give(argv, lambda: (data,), self.hosts if only is None else only, seconds)

    def give(
        self, argv: Words, chunks: Callable[[], Iterable[bytes]], only: Sequence[str], seconds: float
    ) -> dict[str, Answer]:
        """Return the answers of these hosts to a command that reads `chunks`. Each has that time."""
        opened: list[Channel] = []

        def answered(node: str) -> Answer:
            channel = self._channel(node, argv)
            opened.append(channel)
            return answer(channel, chunks(), seconds)

        def give_up() -> None:
            for channel in opened:
                channel.cut()

        return each(only, answered, give_up)

    def _channel(self, node: str, argv: Words) -> Channel:
        try:
            return self.connect(node, argv)
        except Exception as error:  # any error of the transport: the end of the channel tells of it
            return Unopened(why_unopened(error, len(self.hosts)))


def with_node_name(node: str, command: Command) -> Words:
    """Return the words of a command with the name of its node, by which the node reports."""
    return ("env", f"MNRUN_NODE={node}", *command.argv)


def room(hosts: int) -> None:
    """Raise the limit of open files for channels to this many hosts, as far as the system allows.

    Often it is 1024 at first. It rises no further than needed, since the programs that mnrun starts inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES + FILES_EACH * hosts
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def why_unopened(error: Exception, hosts: int) -> str:
    """Return the reason that a connection to a host did not open: too many open files, or the error's text."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"too many open files here: {hosts} hosts, limit {limit} (ulimit -n)"
    return str(error) or type(error).__name__


def each(names: Sequence[str], act: Callable[[str], T], give_up: Callable[[], None] = lambda: None) -> dict[str, T]:
    """Return name -> result of `act` for each name, many at a time. `give_up` ends them early, at Ctrl-C."""
    with ThreadPoolExecutor(min(AT_ONCE, len(names) or 1)) as pool:
        try:
            return dict(zip(names, pool.map(act, names)))
        except BaseException:  # the pool waits for its threads
            give_up()
            raise

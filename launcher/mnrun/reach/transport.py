"""Start commands on several hosts, without a scheduler that starts and watches them.

Each channel is a client program of its own, whose standard input arrives on the host: ssh, for example. Another kind of
transport opens its channels in another way. A lease has one channel to every host. The program has one to the first.
"""

from __future__ import annotations

import errno
import queue
import resource
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mnrun.model import Command, Words
from mnrun.reach import login_shell
from mnrun.reach.channel import Answer, Channel, Marked, Unopened, answer
from mnrun.reach.leases import ChannelLease
from mnrun.reach.program import Program
from mnrun.system import process
from mnrun.system.events import Event
from mnrun.system.process import Output, ProcessChannel, Running, starting

AT_ONCE = 32  # hosts at a time
ASK = 60.0  # seconds for a host to answer a short question
FILES, FILES_EACH = 256, 8  # open files: for everything else, and for each host
T = TypeVar("T")
# The words of the client, by the node, the line for its login shell, and whether the line gets mnrun's terminal.
Client = Callable[[str, str, bool], Words]


class Transport:
    """A connection to the hosts of a job, which starts commands on them. `start` is a system.process.Starter. `before`
    has commands of sh that come before each one on this machine."""

    before = ""

    def __init__(self, hosts: Words, client: Client, here: Collection[str] = (), broken: int | None = None) -> None:
        """Prepare to reach `hosts`. A client connects at the first use. Those of them that are `here` are this machine,
        and need no client. `broken` is the exit code of the client for a connection that broke."""
        self.hosts = hosts
        self._client, self._here, self._broken = client, here, broken

    def connect(self, node: str, argv: Words) -> Channel:
        """Start a command on one host. Raises any error of the connection."""
        if node in self._here:
            return ProcessChannel(self._local(argv))
        mark = login_shell.mark()
        return Marked(ProcessChannel(self._client(node, login_shell.line(argv, mark), False), self._broken), mark)

    def leave(self) -> str:
        """End what waits on hosts for commands. Return a warning about what has connected to this machine, or ""."""
        return ""

    def start(
        self,
        name: str,
        command: Command,
        environ: dict[str, str],
        events: queue.SimpleQueue[Event],
        piped: bool,
        *,
        terminal: bool = False,
        noise: bool = False,
        output: Output = (None, None),
    ) -> Running:
        """Start a command on its nodes."""
        if piped:
            channels = each(command.nodes, lambda node: self._channel(node, with_node_name(node, command)))
            return ChannelLease(name, channels, events)
        (node,) = command.nodes
        argv = with_node_name(node, command)
        if terminal:
            words = self._local(argv) if node in self._here else self._client(node, login_shell.line(argv), True)
            with starting(words[0]):
                return process.start(name, Command(words), environ, events, piped=False, terminal=True)
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

    def _local(self, argv: Words) -> Words:
        """Return the words that start a command on this machine. As on others, a missing program is an exit code."""
        return ("sh", "-c", f'{self.before}exec "$@"', "sh", *argv)

    def _channel(self, node: str, argv: Words) -> Channel:
        try:
            return self.connect(node, argv)
        except Exception as error:  # any error of the transport: the end of the channel tells of it
            return Unopened(why_unopened(error, len(self.hosts)))


def with_node_name(node: str, command: Command) -> Words:
    """Return the words of a command with the name of its node, by which the node reports."""
    return ("env", f"MNRUN_NODE={node}", *command.argv)


def allow_files(hosts: int) -> None:
    """Raise the limit of open files for channels to this many hosts, as far as the system allows. Often it is 1024 at
    first. It rises no further than needed, since the programs that mnrun starts inherit it."""
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

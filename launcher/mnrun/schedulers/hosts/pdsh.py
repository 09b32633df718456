"""Hosts by the OpenSSH client, and pdsh, which starts many of them at once.

pdsh closes the standard input of its commands. So the lease of a guard is a FIFO on its host. Private data (the kit,
files) goes into the FIFO by an ssh of its own, on standard input. Plain words go by a short pdsh. If our end of the
connection is gone, the guard cannot write its heartbeat, and so notices.
"""

from __future__ import annotations

import queue
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mnrun.files import BASH
from mnrun.jobspec import JobSpec
from mnrun.model import Command, Words
from mnrun.nodes import kit
from mnrun.schedulers.hosts import login_shell
from mnrun.schedulers.hosts.channel import BROKEN, GONE, Channel, Marked, Thread, lines, thread
from mnrun.schedulers.hosts.leases import Lease
from mnrun.schedulers.hosts.transport import Transport
from mnrun.system import process
from mnrun.system.process import Event, ProcessChannel, Running, starting, tied

SSH_FAILED = 255  # the exit code of ssh itself (ssh(1))
# As with paramiko, no host key is taken on trust, whatever the user's own configuration says.
# A master connection of the user's serves. ssh would leave a new one behind, which held our pipes before OpenSSH 8.8.
OPTIONS = (
    *("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=15", "-x"),
    *("-o", "ControlMaster=no"),
)
GREETING = 30.0  # seconds: a guard bears two minutes of silence
PLAIN = re.compile(rb"(go|log|alive|end|signal [A-Z0-9]+)\n")
COMPLAINT = re.compile(r"pdsh@\S+: (\S+): ssh exited with exit code (\d+)")


def installed() -> bool:
    return process.has("pdsh") and process.has("ssh")


class PdshTransport(Transport):
    """The transport by ssh for each host, and by pdsh for many. It connects at the first use."""

    def __init__(self, spec: JobSpec, environ: Mapping[str, str]) -> None:
        super().__init__(tuple(host.name for host in spec.hosts.names))
        options = list(OPTIONS)
        options += ["-p", str(spec.hosts.ssh_port)] if spec.hosts.ssh_port else []
        self._user = ("-l", spec.hosts.ssh_user) if spec.hosts.ssh_user else ()
        self._options = (*options, *self._user)
        self._environ = {
            **environ,
            # pdsh's own `-l%u` would overrule a User of ~/.ssh/config.
            "PDSH_SSH_ARGS": "-l%u %h" if self._user else "%h",
            "PDSH_SSH_ARGS_APPEND": " ".join([environ.get("PDSH_SSH_ARGS_APPEND", ""), *options]).strip(),
        }

    def connect(self, node: str, argv: Words) -> Marked:
        mark = login_shell.mark()
        ssh = ("ssh", "-T", *self._options, "--", node, login_shell.line(argv, mark))
        return Marked(ProcessChannel(ssh, lost=SSH_FAILED), mark)

    def prompt(
        self, name: str, node: str, argv: Words, environ: dict[str, str], events: queue.SimpleQueue[Event]
    ) -> Running:
        # ERROR hides ssh's farewell, which comes when all is done.
        ssh = ("ssh", "-tt", "-o", "LogLevel=ERROR", *self._options, "--", node, login_shell.line(argv))
        with starting("ssh"):
            return process.start(name, Command(ssh), environ, events, piped=False, terminal=True)

    def lease(self, name: str, command: Command, events: queue.SimpleQueue[Event]) -> Running:
        """Start a command on its nodes, with a lease. A serving step has it by pdsh, and a FIFO on each node."""
        if not command.lease_dir:
            return super().lease(name, command, events)
        argv = (*BASH, "-c", kit.spoken(kit.LEASE), command.lease_dir, *command.argv)
        mark = login_shell.mark()
        with starting("pdsh"):
            output = self.connect_all(command.nodes, argv, mark)
        return PdshLease(name, command.nodes, output, events, FifoWriter(self, command.lease_dir), mark)

    def connect_all(self, nodes: Sequence[str], argv: Words, mark: str) -> ProcessChannel:
        """Start a command on these hosts by one pdsh, without an input. Its output has the lines of all.

        The lines of each host begin with `MARK.HOST`, on both streams.
        """
        # pdsh replaces %h and its kin in the command. So %h stands in the open, and every other % is doubled.
        text = login_shell.unpacking(argv, mark).replace("%", "%%").replace(mark, f"{mark}.%h")
        line = f"exec env MNRUN_NODE=%h {text}"
        # -f starts all at the same time. A serving step lives as long as its job, so a host beyond the fanout would
        # never begin.
        pdsh = ("pdsh", "-R", "ssh", "-S", "-N", "-f", str(len(nodes)), *self._user, "-w", ",".join(nodes), line)
        channel = ProcessChannel(tied(pdsh), environ=self._environ)
        channel.shut()
        return channel


class FifoWriter:
    """The writer to the FIFOs on the hosts."""

    def __init__(self, transport: PdshTransport, lease_dir: str) -> None:
        self._transport, self._lease_dir = transport, lease_dir

    def pour(self, data: bytes, nodes: Sequence[str]) -> None:
        text = f"{kit.spoken(kit.AWAIT_LEASE)}\n{kit.spoken(kit.INTO)}"
        self._transport.ask(("sh", "-c", text, self._lease_dir, "pour"), data, only=nodes)

    def say(self, word: str, nodes: Sequence[str]) -> None:
        if not nodes:
            return
        argv = ("sh", "-c", kit.spoken(kit.INTO), self._lease_dir, "say", word)
        channel = self._transport.connect_all(nodes, argv, login_shell.mark())
        for stream in (1, 2):
            list(lines(channel, stream))
        channel.wait()


class PdshLease(Lease):
    """A lease with the output of one pdsh for all hosts, and a writer to each host's FIFO."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[str],
        output: Channel,
        events: queue.SimpleQueue[Event],
        writer: FifoWriter,
        mark: str,
    ) -> None:
        super().__init__(name, nodes, events)
        self._output = output
        self._mark = mark
        self._writer = writer
        self._input: queue.Queue[tuple[bytes, Sequence[str]]] = queue.Queue()
        self._lost: set[str] = set()  # an ssh to a lost host would hold up the others
        self._greeted = 0.0
        readers = [thread(self._read, kind, stream) for stream, kind in ((1, "line"), (2, "noise"))]
        thread(self._write)
        thread(self._tick)
        thread(self._finish, readers)

    def send(self, data: bytes, node: str = "") -> None:
        self._input.put((data, (node,) if node else ()))

    def close(self) -> None:
        self._closed = True
        self._input.put((b"", ()))

    def end(self, signum: int) -> None:
        self._output.cut()

    def _lose(self, node: str, reason: str) -> None:
        self._lost.add(node)
        super()._lose(node, reason)

    def _give_up(self, node: str) -> None:
        pass

    def _greet(self, nodes: Sequence[str]) -> None:
        if time.monotonic() > self._greeted + GREETING:
            self._greeted = time.monotonic()
            self._input.put((b"alive\n", nodes))

    def _write(self) -> None:
        while True:
            data, nodes = self._input.get()
            nodes = [node for node in nodes or sorted(self._nodes) if node not in self._lost]
            if not data:
                self._writer.say("over", nodes)
                return
            if PLAIN.fullmatch(data):
                self._writer.say(data.decode().strip(), nodes)
            else:
                self._writer.pour(data, nodes)

    def _read(self, kind: str, stream: int) -> None:
        for line in begun(lines(self._output, stream), self._mark, self._nodes, errors=stream == 2):
            complaint = COMPLAINT.search(line)
            node, code = (complaint[1], int(complaint[2])) if complaint else ("", 0)
            if node in self._nodes and (not self._closed or code == SSH_FAILED):
                self._lose(node, BROKEN if code == SSH_FAILED else f"its guard ended with {code}")
            else:
                self._hear(kind, line)

    def _finish(self, readers: list[Thread[None]]) -> None:
        for reader in readers:
            reader.join()
        code = self._output.wait()
        self._end(GONE if code is None else code)


def begun(said: Iterable[str], mark: str, nodes: Iterable[str], errors: bool) -> Iterator[str]:
    """Yield pdsh's own lines, and those of commands that have begun: a login shell may print before that.

    A line may not tell its host. So such a line is dropped until all have begun. If one never begins, its ssh may have
    said why, so the errors come at the end.
    """
    waiting, dropped = set(nodes), []
    others = frozenset(waiting)
    for line in said:
        _, marked, host = line.partition(f"{mark}.")
        if marked:
            waiting.discard(host)
        elif not waiting or COMPLAINT.search(line) or (*line.split(), "", "")[1] in others - waiting:
            yield line
        else:
            dropped.append(line)
    if waiting and errors:
        yield from dropped

"""Hosts by the OpenSSH client, and pdsh, which starts many of them at once.

pdsh closes the standard input of its commands. So the lease of a guard is a named pipe on its host. Private data (the
kit, files) goes into the pipe by an ssh of its own, on standard input. Plain words go by a short pdsh. If our end of
the connection is gone, the guard cannot write its heartbeat, and so notices.
"""

from __future__ import annotations

import contextlib
import queue
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from mnrun.jobspec import JobSpec
from mnrun.model import Words
from mnrun.nodes import kit
from mnrun.schedulers.hosts.names import EACH, in_one_line, unnamed
from mnrun.schedulers.hosts.wires import GONE, Listener, Way, lines, thread
from mnrun.system import process
from mnrun.system.process import Event, ProcessWire, tied

LOST = 255  # the exit code of ssh itself (ssh(1))
GREETING = 30.0  # seconds: a guard bears two minutes of silence
PLAIN = re.compile(rb"(go|log|alive|end|signal [A-Z0-9]+)\n")
COMPLAINT = re.compile(r"pdsh@\S+: (\S+): ssh exited with exit code (\d+)")


def installed() -> bool:
    return process.has("pdsh") and process.has("ssh")


@contextlib.contextmanager
def connected(asked: JobSpec, environ: Mapping[str, str]) -> Iterator[Way]:
    """Yield a way to the hosts of the job. It connects at the first use."""
    # As with paramiko, no host key is taken on trust, whatever the user's own configuration says.
    options = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=15", "-x"]
    options += ["-p", str(asked.hosts.ssh_port)] if asked.hosts.ssh_port else []
    user = ["-l", asked.hosts.ssh_user] if asked.hosts.ssh_user else []
    own = {
        **environ,
        # pdsh's own `-l%u` would overrule a User of ~/.ssh/config.
        "PDSH_SSH_ARGS": "-l%u %h" if user else "%h",
        "PDSH_SSH_ARGS_APPEND": " ".join([environ.get("PDSH_SSH_ARGS_APPEND", ""), *options]).strip(),
    }
    names = tuple(host.name for host in asked.hosts.names)

    def ssh(node: str, words: Words) -> ProcessWire:
        return ProcessWire(("ssh", "-T", *options, *user, "--", node, in_one_line(words)), lost=LOST)

    def fan_out(nodes: Sequence[str], words: Words) -> ProcessWire:
        # pdsh replaces %h and its kin in the command. So %h stands in the open, and every other % is doubled.
        said = in_one_line(unnamed(words)).replace("%", "%%").replace("exec", f"exec env {EACH.format(node='%h')}", 1)
        # -f starts all at the same time. A serving step lives as long as its job, so a host beyond the fanout would
        # never begin.
        argv = ("pdsh", "-R", "ssh", "-S", "-N", "-f", str(len(nodes)), *user, "-w", ",".join(nodes), said)
        return ProcessWire(tied(argv), environ=own)

    def lease(name: str, nodes: Sequence[str], words: Words, events: queue.SimpleQueue[Event]) -> Fan:
        place = f"{node_dir(words)}.lease"
        up = fan_out(nodes, ("exec", "bash", "-p", "-c", kit.spoken(kit.LEASE), place, *words[1:]))
        return Fan(name, nodes, up, events, _Down(way, place, fan_out))

    def prompt(name: str, node: str, words: Words, events: queue.SimpleQueue[Event]) -> process.Running:
        # ERROR hides ssh's farewell, which comes when all is done.
        argv = ("ssh", "-tt", "-o", "LogLevel=ERROR", *options, *user, "--", node, in_one_line(words))
        return process.start(name, argv, dict(environ), events, held=False, terminal=True)

    way = Way(names, ssh, prompt, lease)
    yield way


def node_dir(words: Words) -> str:
    """Return the job's directory on its nodes: the word after the first script of a serving step (kit.guard)."""
    return words[words.index("-c") + 2]


class _Down:
    """The writer to the hosts' pipes."""

    def __init__(self, way: Way, place: str, fan_out: Callable[[Sequence[str], Words], ProcessWire]) -> None:
        self._way, self._place, self._fan_out = way, place, fan_out

    def pour(self, data: bytes, nodes: Sequence[str]) -> None:
        text = f"{kit.spoken(kit.AWAIT_LEASE)}\n{kit.spoken(kit.INTO)}"
        self._way.ask(("sh", "-c", text, self._place, "pour"), data, only=nodes)

    def say(self, word: str, nodes: Sequence[str]) -> None:
        if not nodes:
            return
        wire = self._fan_out(nodes, ("sh", "-c", kit.spoken(kit.INTO), self._place, "say", word))
        wire.shut()
        for stream in (1, 2):
            list(lines(wire, stream))
        wire.wait()


class Fan(Listener):
    """One pdsh for all hosts, and the writer to each of their pipes."""

    def __init__(
        self, name: str, nodes: Sequence[str], up: ProcessWire, events: queue.SimpleQueue[Event], down: _Down
    ) -> None:
        super().__init__(name, nodes, events)
        self._up = up
        self._down = down
        self._words: queue.Queue[tuple[bytes, Sequence[str]]] = queue.Queue()
        self._lost: set[str] = set()  # an ssh to a lost host would hold up the others
        self._greeted = 0.0
        up.shut()
        readers = [thread(self._read, kind, stream) for stream, kind in ((1, "line"), (2, "noise"))]
        thread(self._write)
        thread(self._tick)
        thread(self._finish, readers)

    def send(self, data: bytes, node: str = "") -> None:
        """Write to one node or to all, without waiting."""
        self._words.put((data, (node,) if node else ()))

    def close(self) -> None:
        self._closed = True
        self._words.put((b"", ()))

    def end(self, signum: int) -> None:
        self._up.cut()

    def _lose(self, node: str, why: str) -> None:
        self._lost.add(node)
        super()._lose(node, why)

    def _give_up(self, node: str) -> None:
        pass

    def _greet(self, nodes: Sequence[str]) -> None:
        if time.monotonic() > self._greeted + GREETING:
            self._greeted = time.monotonic()
            self._words.put((b"alive\n", nodes))

    def _write(self) -> None:
        while True:
            data, nodes = self._words.get()
            nodes = [node for node in nodes or sorted(self._nodes) if node not in self._lost]
            if not data:
                self._down.say("over", nodes)
                return
            if PLAIN.fullmatch(data):
                self._down.say(data.decode().strip(), nodes)
            else:
                self._down.pour(data, nodes)

    def _read(self, kind: str, stream: int) -> None:
        for line in lines(self._up, stream):
            said = COMPLAINT.search(line)
            if said and said[1] in self._nodes and (not self._closed or int(said[2]) == LOST):
                why = "the connection to it broke" if int(said[2]) == LOST else f"its guard ended with {said[2]}"
                self._lose(said[1], why)
            else:
                self._hear(kind, line)

    def _finish(self, readers: list[object]) -> None:
        for reader in readers:
            reader.join()  # type: ignore[attr-defined]
        code = self._up.wait()
        self._end(GONE if code is None else code)

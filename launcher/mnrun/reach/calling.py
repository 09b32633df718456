"""Reach nodes that call mnrun, each time for one command. The connections of a call are the command's channel.

A client starts wrappers/entry/call.sh on a node, with the first command for it. It may give it no input. The secret
goes to the node in a file of the user's, which the node removes. Words are public, and variables may be: Grid Engine
8.1.9 writes those of `qrsh -inherit -v` into a file that everybody can read (`environment` in execd's spool).
docs/security.md says what is protected.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from functools import partial
from pathlib import Path
from typing import IO

from mnrun import nodeset
from mnrun.errors import Impossible, NodeError
from mnrun.files import BASH, spoken
from mnrun.jobspec import Way
from mnrun.model import Words
from mnrun.reach import login_shell
from mnrun.reach.channel import Channel, Unopened, why
from mnrun.reach.door import SILENT, Caller, Door
from mnrun.reach.pair import Pair
from mnrun.reach.transport import FILES_EACH, Transport, allow_files
from mnrun.system.commands import last_line
from mnrun.system.paths import private
from mnrun.system.process import Thread

PATIENCE = 45.0  # seconds for a node to call
LEAVE = 2.0  # seconds for nodes that call once more at the end
OLD = 86400.0  # seconds after which nobody needs the file of a secret
# Exit codes of call.sh -> the reason and the remedy.
ENDS = {
    71: "it cannot read {file}: name a directory that the nodes share, with --job-dir",
    72: "it cannot connect to {place}: open that port (--ports), or give the name that it knows (--reach call:NAME)",
    73: "another program answers it at {place}: give the name that it knows (--reach call:NAME)",
    74: "its bash has no /dev/tcp, to connect to {place}: use another --reach",
    75: "its proof was refused at {place}: see whether it has sha512sum, and whether strangers crowd that port",
}
# The words of a client that starts a line on a node, without input.
Starter = Callable[[str, str], Words]


class Calls(Transport):
    """A transport whose channels are the connections of nodes that call."""

    def __init__(self, hosts: Words, starter: Starter, here: Sequence[str], way: Way) -> None:
        """Prepare to reach `hosts`. Those that are `here` are this machine, which the others know by the first name."""
        super().__init__(hosts, no_terminal, here)
        self._starter = starter
        self._names = (way.address,) if way.address else tuple(dict.fromkeys((*here[:1], os.uname().nodename)))
        self._folder = Path(way.directory or Path.home() / ".mnrun")
        for left in self._folder.glob(".call.*"):  # by a launch that was killed before its node read it
            with contextlib.suppress(OSError):
                if left.stat().st_mtime < time.time() - OLD:
                    left.unlink()
        self._door = Door(way.ports)
        self._nodes = {host: Node(self._door, os.urandom(8).hex(), os.urandom(32).hex()) for host in hosts}
        allow_files(len(hosts) + SILENT // FILES_EACH)

    def connect(self, node: str, argv: Words) -> Channel:
        if node in self._here:
            return super().connect(node, argv)
        called = self._nodes[node]
        called.start(self._folder, self._names, partial(self._starter, node))
        return called.run(argv)

    def leave(self) -> str:
        return left(self._door, self._nodes.values())


def left(door: Door, nodes: Iterable[Node]) -> str:
    """End what waits on nodes for a command. Return a warning about strangers at the port, or ""."""
    until = time.monotonic() + LEAVE
    for node in nodes:
        node.end(until)
    where = "connected to the port where nodes call, and got nothing"
    return f"{nodeset.counted(door.strangers, 'stranger')} {where}" if door.strangers else ""


def no_terminal(node: str, line: str, terminal: bool) -> Words:
    raise Impossible(f"{node} calls back, and so gets no terminal", "use another --reach")


class Node:
    """A node that calls, gets a command, and calls again."""

    def __init__(self, door: Door, ticket: str, secret: str) -> None:
        self._door, self._secret = door, secret
        self.caller = Caller(ticket, secret, self._take)
        self._calls: queue.SimpleQueue[Pair | str] = queue.SimpleQueue()  # or the reason that there are no more
        self._lock, self.called = threading.Lock(), threading.Event()
        self._file, self._place = "", "again"  # where the node finds the secret, and mnrun
        self._client: subprocess.Popen[bytes] | None = None

    def start(self, folder: Path, names: Words, starter: Callable[[str], Words]) -> None:
        """Start the client, once. The node knows us by these names. Raises LaunchError or OSError."""
        with self._lock:
            if self._client is not None:
                return
            try:
                port = self._door.expect(self.caller)
                self._place = f"{names[0]}:{port}"
                told = (self._write(folder), self.caller.ticket, str(port), ",".join(names))
                words = starter(login_shell.line((*BASH, "-c", spoken("call.sh"), *told)))
                errors, null = tempfile.TemporaryFile(), subprocess.DEVNULL  # noqa: SIM115  # as long as the client
                self._client = subprocess.Popen(words, stdin=null, stdout=null, stderr=errors, start_new_session=True)
                Thread(self._watch, self._client, errors)
            except BaseException:
                self.end()
                self._client = None
                raise

    def run(self, argv: Words) -> Channel:
        """Run a command there, as soon as the node calls."""
        call = Later()
        Thread(self._give, call, argv)
        return call

    def end(self, until: float = 0.0) -> None:
        """End what waits there for a command, or still calls for one."""
        with contextlib.suppress(queue.Empty, OSError):
            left = max(0.0, until - time.monotonic()) if self.called.is_set() else 0.0
            while isinstance(waiting := self._calls.get(timeout=left), Pair):
                waiting.send(b"0 0\n")
                waiting.close()
                left = 0.0
        self._forget()
        if self._client is not None and not self.called.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._client.pid, signal.SIGKILL)

    def _write(self, folder: Path) -> str:
        """Write the secret into a file, and return its name."""
        private(folder)
        self._file = str(folder / f".call.{self.caller.ticket}")
        with open(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)  # under any umask
            file.write(f"mnrun-call {self._secret}\n")
        return self._file

    def _take(self, pair: Pair) -> None:
        self._forget()
        self.called.set()
        self._calls.put(pair)

    def _forget(self) -> None:
        self._door.forget(self.caller)
        with contextlib.suppress(OSError):
            os.unlink(self._file)

    def _give(self, call: Later, argv: Words) -> None:
        """Give the next call of the node a command, and expect another one."""
        found = self._next()
        if isinstance(found, Pair) and not call.found.done():
            text = shlex.join(argv).encode("utf-8", "surrogateescape")
            try:
                found.send(f"{self._door.expect(self.caller)} {len(text)}\n".encode() + text)
            except (OSError, NodeError) as error:
                found.close()
                found = str(error)
        if not call.settle(Unopened(found) if isinstance(found, str) else found) or isinstance(found, str):
            self._calls.put(found)  # for the next command

    def _next(self) -> Pair | str:
        try:
            return self._calls.get(timeout=PATIENCE)
        except queue.Empty:
            self.end()
            reason = "a firewall may keep it away (--ports), or its bash has no /dev/tcp: see --reach"
            return f"it did not call {self._place} within {PATIENCE:.0f} s; {reason}"

    def _watch(self, client: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        """Tell if the client fails. It may also end before its node does."""
        with errors:
            if code := client.wait():
                self._forget()
                errors.seek(0)
                said = last_line(errors.read().decode("utf-8", "replace")) or f"its client ended with {code}"
                self._calls.put(ENDS[code].format(file=self._file, place=self._place) if code in ENDS else said)


class Later:
    """A channel that opens later. Until then, its methods wait."""

    def __init__(self) -> None:
        self.found: Future[Channel] = Future()

    def settle(self, channel: Channel) -> bool:
        """Open it, or give it up by an Unopened, if that has not been done."""
        with contextlib.suppress(InvalidStateError):
            self.found.set_result(channel)
            return True
        return False

    @property
    def why(self) -> str:
        return why(self.found.result())

    def receive(self, stream: int) -> bytes:
        return self.found.result().receive(stream)

    def send(self, data: bytes) -> None:
        self.found.result().send(data)

    def shut(self) -> None:
        self.found.result().shut()

    def wait(self) -> int | None:
        return self.found.result().wait()

    def cut(self) -> None:
        self.settle(Unopened(""))
        self.found.result().cut()

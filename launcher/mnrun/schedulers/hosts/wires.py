"""A command on each of several hosts, without a scheduler that starts and watches it.

A wire is one such command, with its three streams and its exit code. A way opens wires, by paramiko or by an ssh
client. A lease has one wire to every host, and the run has one to the first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import resource
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from mnrun import nodeset
from mnrun.model import Words
from mnrun.schedulers.hosts.names import named
from mnrun.system.process import Event, Output, Running

TICK = 10.0  # seconds between two words to each node, whose guard takes long silence for the end
LOST = 30.0  # seconds without a word from a node, which speaks every few: the node is lost
AT_ONCE = 32  # hosts at a time
ASK = 60.0  # seconds for a host to answer a question
T = TypeVar("T")
BROKE = "the connection to it broke"
FILES, FILES_EACH = 256, 8  # open files: for everything else, and for each host
UNHEARD = 141  # 128 + SIGPIPE
GONE = 255  # for a command whose connection went before it could say how it ended


class Wire(Protocol):
    """A command on one host."""

    def receive(self, stream: int) -> bytes:
        """Return the next output (stream 1) or errors (stream 2) of the command, or b"" at the end. Waits for them."""

    def send(self, data: bytes) -> None:
        """Write to the command's input. Waits while the command does not read. Raises OSError if it is gone."""

    def shut(self) -> None:
        """End the command's input."""

    def wait(self) -> int | None:
        """Return the exit code once the command has ended, or None if the connection broke before."""

    def cut(self) -> None:
        """Give the command up at once."""


@dataclass(frozen=True)
class Answer:
    """The end of a short command on a host. `code` is None if the connection broke."""

    code: int | None
    out: str
    err: str


class Listener:
    """The common part of all leases on several hosts: it hears the guards, and notices silence."""

    def __init__(self, name: str, nodes: Iterable[str], events: queue.SimpleQueue[Event]) -> None:
        self.name = name
        self._nodes = frozenset(nodes)
        self._events = events
        self._heard: dict[str, float] = {}  # when each guard that has spoken last spoke
        self._closed = False
        self._ended = threading.Event()

    def pulse(self) -> None:
        """Do nothing: `_tick` shows that mnrun lives."""

    def wait(self, seconds: float) -> bool:
        return self._ended.wait(seconds)

    def _hear(self, kind: str, line: str) -> None:
        word, node, *_ = (*line.split(), "", "")
        if node in self._nodes and word != "here":  # the guard runs, and reads
            self._heard[node] = time.monotonic()
        if word != "alive" or node not in self._nodes:
            self._events.put((kind, self.name, line))

    def _lose(self, node: str, why: str) -> None:
        self._heard.pop(node, None)
        self._events.put(("line", self.name, f"lost {node} {why}"))

    def _tick(self) -> None:
        """Speak to the nodes that speak. A node that died or is cut off is silent, and its connection stays open."""
        last = time.monotonic()
        while not self._ended.wait(TICK):
            begin, last = last, time.monotonic()
            silent = {node: last - heard for node, heard in list(self._heard.items())}
            # If mnrun itself was stopped, the nodes' words of that time still wait in the connections.
            if last > begin + 1.5 * TICK:
                silent = dict.fromkeys(silent, 0.0)
            for node in [node for node in silent if silent[node] > LOST]:
                self._lose(node, f"no answer from it for {silent[node]:.0f} s")
                self._give_up(node)
            well = [node for node in silent if silent[node] < LOST / 2]
            if well and not self._closed:
                self._greet(well)

    def _give_up(self, node: str) -> None:
        raise NotImplementedError

    def _greet(self, nodes: Sequence[str]) -> None:
        raise NotImplementedError

    def _end(self, code: int) -> None:
        self._ended.set()
        self._events.put(("ended", self.name, code))


class Lease(Listener):
    """One wire to every host, heard and written to together. To its owner, it looks like a single process."""

    def __init__(self, name: str, wires: Mapping[str, Wire], events: queue.SimpleQueue[Event]) -> None:
        super().__init__(name, wires, events)
        self._wires = dict(wires)
        self._down: dict[str, queue.Queue[bytes | None]] = {node: queue.Queue() for node in wires}
        self._given_up: set[str] = set()
        followers = [thread(self._follow, node, wire) for node, wire in self._wires.items()]
        thread(self._finish, followers)
        thread(self._tick)

    def send(self, data: bytes, node: str = "") -> None:
        """Write to one node or to all, without waiting."""
        for down in (self._down[node],) if node else self._down.values():
            down.put(data)

    def close(self) -> None:
        self._closed = True
        for down in self._down.values():
            down.put(None)

    def end(self, signum: int) -> None:
        for node in self._wires:
            self._give_up(node)

    def _give_up(self, node: str) -> None:
        self._given_up.add(node)
        self._wires[node].cut()

    def _greet(self, nodes: Sequence[str]) -> None:
        for node in nodes:
            self._down[node].put(b"alive\n")

    def _follow(self, node: str, wire: Wire) -> int | None:
        writer = thread(self._write, node, wire)
        readers = [thread(self._read, kind, wire, stream) for stream, kind in ((1, "line"), (2, "noise"))]
        for reader in readers:
            reader.join()  # the last words come before the end
        code = wire.wait()
        known = node not in self._given_up
        self._heard.pop(node, None)
        self._down[node].put(None)
        writer.join()
        if known and code is None:
            self._lose(node, _why(wire))
        elif known and code and not self._closed:
            self._lose(node, f"its guard ended with {code}")
        return code

    def _write(self, node: str, wire: Wire) -> None:
        with contextlib.suppress(OSError):  # the news of its end is under way
            for data in iter(self._down[node].get, None):
                wire.send(data)
            wire.shut()

    def _read(self, kind: str, wire: Wire, stream: int) -> None:
        for line in lines(wire, stream):
            self._hear(kind, line)

    def _finish(self, followers: list[_Thread]) -> None:
        codes = [follower.result() for follower in followers]
        self._end(max(GONE if code is None else code for code in codes))


class Run:
    """One wire with mnrun's own standard input, and its output and errors, or files in their place."""

    def __init__(
        self, name: str, node: str, wire: Wire, events: queue.SimpleQueue[Event], output: Output = (None, None)
    ) -> None:
        self.name = name
        self._node = node
        self._wire = wire
        self._ended = threading.Event()
        self._unheard = False  # mnrun's own output is closed
        thread(self._feed)
        thread(self._finish, [thread(self._copy, stream, output[stream - 1] or stream) for stream in (1, 2)], events)

    def send(self, data: bytes, node: str = "") -> None:
        pass

    def pulse(self) -> None:
        pass

    def close(self) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        return self._ended.wait(seconds)

    def end(self, signum: int) -> None:
        self._wire.cut()

    def _feed(self) -> None:
        with contextlib.suppress(OSError):  # nobody reads any more, or mnrun has no input
            if not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp():  # in the background, a read stops us (SIGTTIN)
                while data := os.read(0, 65536):
                    self._wire.send(data)
            self._wire.shut()

    def _copy(self, stream: int, to: int) -> None:
        try:
            while data := self._wire.receive(stream):
                _put(to, data)
        except OSError:
            self._unheard = True
            self._wire.cut()

    def _finish(self, readers: list[_Thread], events: queue.SimpleQueue[Event]) -> None:
        for reader in readers:
            reader.join()
        code = self._wire.wait()
        self._ended.set()
        if code is None and not self._unheard:
            events.put(("line", self.name, f"lost {self._node} {_why(self._wire)}"))
        events.put(("ended", self.name, UNHEARD if self._unheard else GONE if code is None else code))


Prompt = Callable[[str, str, Words, "queue.SimpleQueue[Event]"], Running]  # name, host, words, events


@dataclass(frozen=True)
class Way:
    """A way to the hosts: their names, and the function that opens a wire to a command on one of them."""

    hosts: tuple[str, ...]
    wire: Callable[[str, Words], Wire]
    prompt: Prompt | None = None  # starts a command that has mnrun's terminal
    # One process in place of many wires, as pdsh has it.
    lease: Callable[[str, Sequence[str], Words, queue.SimpleQueue[Event]], Running] | None = None

    def start(
        self,
        name: str,
        argv: Words,
        environ: Mapping[str, str],
        events: queue.SimpleQueue[Event],
        held: bool,
        *,
        terminal: bool = False,
        apart: bool = False,
        output: Output = (None, None),
    ) -> Running:
        """Start `ssh HOSTS WORDS…` as names.py writes it."""
        _, where, *words = argv
        nodes = nodeset.expand(where)
        if held and self.lease is not None and name == "serve":
            return self.lease(name, nodes, tuple(words), events)
        if terminal:
            assert self.prompt is not None
            return self.prompt(name, nodes[0], tuple(words), events)
        wires = each(nodes, lambda node: self._opened(node, named(tuple(words), node)))
        return Lease(name, wires, events) if held else Run(name, nodes[0], wires[nodes[0]], events, output)

    def ask(self, words: Words, given: bytes = b"", only: Sequence[str] | None = None) -> dict[str, Answer]:
        """Return the answers of all hosts, or of `only` some, to a short command with `given` on its input."""
        hosts = self.hosts if only is None else only
        return each(hosts, lambda node: _answer(self._opened(node, words), (given,), ASK))

    def give(self, words: Words, chunks: Callable[[], Iterable[bytes]], only: Sequence[str]) -> dict[str, Answer]:
        """Return the answers of these hosts to a command that reads `chunks`, without a time limit."""
        return each(only, lambda node: _answer(self._opened(node, words), chunks(), None))

    def _opened(self, node: str, words: Words) -> Wire:
        try:
            return self.wire(node, words)
        except Exception as error:  # any error of the way: the end of the wire tells of it
            return _Broken(unopened(error, len(self.hosts)))


def room(hosts: int) -> None:
    """Raise the limit of open files for this many wires, as far as the system allows: often it is 1024 at first. The
    limit rises no further than needed, since the programs that mnrun starts inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES + FILES_EACH * hosts
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def unopened(error: Exception, hosts: int) -> str:
    """Return the reason that a connection to a host did not open: too many open files, or the error's text."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"too many open files here: {hosts} hosts, limit {limit} (ulimit -n)"
    return str(error) or type(error).__name__


class _Broken:
    """The wire in the place of one that did not open."""

    def __init__(self, why: str) -> None:
        self.why = why

    def receive(self, stream: int) -> bytes:
        return b""

    def send(self, data: bytes) -> None:
        raise BrokenPipeError

    def shut(self) -> None:
        pass

    def wait(self) -> int | None:
        return None

    def cut(self) -> None:
        pass


def _why(wire: Wire) -> str:
    """Return the reason that the connection has gone."""
    return wire.why if isinstance(wire, _Broken) else BROKE


def each(names: Sequence[str], act: Callable[[str], T]) -> dict[str, T]:
    """Return name -> result of `act` for each name, many at a time."""
    with ThreadPoolExecutor(min(AT_ONCE, len(names) or 1)) as pool:
        return dict(zip(names, pool.map(act, names)))


def _answer(wire: Wire, given: Iterable[bytes], seconds: float | None) -> Answer:
    if isinstance(wire, _Broken):
        return Answer(None, "", wire.why)
    timer = threading.Timer(seconds or threading.TIMEOUT_MAX, wire.cut)
    timer.daemon = True
    timer.start()
    output, errors = (thread(lambda stream=stream: b"".join(_chunks(wire, stream))) for stream in (1, 2))
    with contextlib.suppress(OSError):
        for chunk in given:
            wire.send(chunk)
        wire.shut()
    said = [thread.result().decode("utf-8", "replace") for thread in (output, errors)]
    code = wire.wait()
    timer.cancel()
    return Answer(code, *said)


def _chunks(wire: Wire, stream: int) -> Iterator[bytes]:
    return iter(lambda: wire.receive(stream), b"")


def lines(wire: Wire, stream: int) -> Iterator[str]:
    """Yield the lines that a command writes to a stream."""
    rest = b""
    for chunk in _chunks(wire, stream):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
    if rest:
        yield rest.decode("utf-8", "replace")


def _put(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class _Thread(threading.Thread):
    """A thread with a result."""

    def __init__(self, act: Callable[..., Any], words: tuple[Any, ...]) -> None:
        super().__init__(daemon=True)
        self._act, self._words = act, words
        self._result: Any = None
        self.start()

    def run(self) -> None:
        self._result = self._act(*self._words)

    def result(self) -> Any:
        self.join()
        return self._result


def thread(act: Callable[..., Any], *words: Any) -> _Thread:
    """Start a function in a thread of its own."""
    return _Thread(act, words)

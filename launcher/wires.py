"""A command on each of several hosts, without a scheduler that would start and watch it.

A wire is one such command: its three streams, and how it ended. Who opens wires (paramiko, or an ssh
client's process) is a way; a lease is one wire to every host, the run is one to the first.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from . import nodeset
from .model import Words
from .transports import Event

TICK = 10.0  # seconds between two words to each node: it takes long silence for the end
LOST = 30.0  # seconds without a word from a node that speaks every few: it is lost
AT_ONCE = 32  # hosts that are connected to at a time
ASK = 60.0  # seconds for a host to answer a question
T = TypeVar("T")
BROKE = "the connection to it broke"
UNHEARD = 141  # 128 + SIGPIPE
GONE = 255  # for a command whose connection went before it could say how it ended


class Wire(Protocol):
    """A command on one host."""

    def receive(self, stream: int) -> bytes:
        """What it has written to its output (1) or its errors (2), once there is something; b"" at the end."""

    def send(self, data: bytes) -> None:
        """Write to its input; waits for as long as it does not read. Raises OSError where it is gone."""

    def shut(self) -> None:
        """End its input."""

    def wait(self) -> int | None:
        """Its exit code, once it has ended; None where the connection went before."""

    def cut(self) -> None:
        """Give it up at once."""


@dataclass(frozen=True)
class Answer:
    """How a short command ended on a host: `code` None where the connection went."""

    code: int | None
    out: str
    err: str


class Lease:
    """One wire to every host, heard and written to together; the same to its owner as a single process."""

    def __init__(self, name: str, wires: Mapping[str, Wire], events: queue.SimpleQueue[Event]) -> None:
        self.name = name
        self._events = events
        self._wires = dict(wires)
        self._down: dict[str, queue.Queue[bytes | None]] = {node: queue.Queue() for node in wires}
        self._heard: dict[str, float] = {}  # of those that say now and then that they are there
        self._given_up: set[str] = set()
        self._closed = False
        self._ended = threading.Event()
        followers = [_thread(self._follow, node, wire) for node, wire in self._wires.items()]
        _thread(self._finish, followers)
        _thread(self._tick)

    def send(self, data: bytes, node: str = "") -> None:
        """To one node, or to all; waits for nobody."""
        for name, down in self._down.items():
            if node in ("", name):
                down.put(data)

    def close(self) -> None:
        self._closed = True
        for down in self._down.values():
            down.put(None)

    def wait(self, seconds: float) -> bool:
        return self._ended.wait(seconds)

    def end(self, signum: int) -> None:
        for node in self._wires:
            self._give_up(node)

    def _give_up(self, node: str) -> None:
        self._given_up.add(node)
        self._wires[node].cut()

    def _follow(self, node: str, wire: Wire) -> int | None:
        writer = _thread(self._write, node, wire)
        readers = [_thread(self._read, node, kind, wire, stream) for stream, kind in ((1, "line"), (2, "noise"))]
        for reader in readers:
            reader.join()  # its last words come before its end
        code = wire.wait()
        known = node not in self._given_up
        self._heard.pop(node, None)
        self._down[node].put(None)
        writer.join()
        if known and code is None:
            self._lose(node, BROKE)
        elif known and not self._closed:
            self._lose(node, f"its guard ended with {code}")
        return code

    def _write(self, node: str, wire: Wire) -> None:
        with contextlib.suppress(OSError):  # its end is on its way to us
            for data in iter(self._down[node].get, None):
                wire.send(data)
            wire.shut()

    def _read(self, node: str, kind: str, wire: Wire, stream: int) -> None:
        for raw in _lines(wire, stream):
            line = raw.decode("utf-8", "replace").rstrip("\n")
            words = line.split()
            if words[1:2] == [node] and words[0] != "here":  # its guard speaks, and reads
                self._heard[node] = time.monotonic()
            if words != ["alive", node]:
                self._events.put((kind, self.name, line))

    def _lose(self, node: str, why: str) -> None:
        self._events.put(("line", self.name, f"lost {node} {why}"))

    def _tick(self) -> None:
        """Speak to those that do; a host that died or is cut off says nothing, and its connection lives on."""
        while not self._ended.wait(TICK):
            for node, heard in list(self._heard.items()):
                silent = time.monotonic() - heard
                if silent > LOST:
                    self._heard.pop(node, None)
                    self._lose(node, f"no word from it for {silent:.0f} s")
                    self._give_up(node)
                elif not self._closed:
                    self._down[node].put(b"alive\n")

    def _finish(self, followers: list[_Thread]) -> None:
        codes = [follower.result() for follower in followers]
        self._ended.set()
        self._events.put(("ended", self.name, max(GONE if code is None else code for code in codes)))


class Run:
    """One wire with our own standard input, output and errors."""

    def __init__(self, name: str, node: str, wire: Wire, events: queue.SimpleQueue[Event]) -> None:
        self.name = name
        self._node = node
        self._wire = wire
        self._ended = threading.Event()
        self._unheard = False  # our own output has been closed
        _thread(self._feed)
        _thread(self._finish, [_thread(self._copy, stream) for stream in (1, 2)], events)

    def send(self, data: bytes, node: str = "") -> None:
        pass

    def close(self) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        return self._ended.wait(seconds)

    def end(self, signum: int) -> None:
        self._wire.cut()

    def _feed(self) -> None:
        with contextlib.suppress(OSError):  # nobody reads it any more; or we have none
            if not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp():  # else reading it would stop us
                while data := os.read(0, 65536):
                    self._wire.send(data)
            self._wire.shut()

    def _copy(self, stream: int) -> None:
        try:
            while data := self._wire.receive(stream):
                _put(stream, data)
        except OSError:
            self._unheard = True
            self._wire.cut()

    def _finish(self, readers: list[_Thread], events: queue.SimpleQueue[Event]) -> None:
        for reader in readers:
            reader.join()
        code = self._wire.wait()
        self._ended.set()
        if code is None and not self._unheard:
            events.put(("line", self.name, f"lost {self._node} {BROKE}"))
        events.put(("ended", self.name, UNHEARD if self._unheard else GONE if code is None else code))


@dataclass(frozen=True)
class Way:
    """A way to the hosts: their names, and what opens a wire to a command on one of them."""

    hosts: tuple[str, ...]
    wire: Callable[[str, Words], Wire]

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
    ) -> Lease | Run:
        """Start `ssh HOSTS WORDS…` as schedulers/hosts.py writes it; {node} in them is each host's name."""
        _, where, *words = argv
        nodes = nodeset.expand(where)
        wires = each(nodes, lambda node: self._opened(node, tuple(word.replace("{node}", node) for word in words)))
        return Lease(name, wires, events) if held else Run(name, nodes[0], wires[nodes[0]], events)

    def ask(self, words: Words, given: bytes = b"", only: Sequence[str] | None = None) -> dict[str, Answer]:
        """The answers of all hosts, or of `only` those, to a short command with `given` on its input."""
        hosts = self.hosts if only is None else only
        return each(hosts, lambda node: _answer(self._opened(node, words), (given,), ASK))

    def give(self, words: Words, chunks: Callable[[], Iterable[bytes]], only: Sequence[str]) -> dict[str, Answer]:
        """The answers of these hosts to a command that reads as much, in its own time."""
        return each(only, lambda node: _answer(self._opened(node, words), chunks(), None))

    def _opened(self, node: str, words: Words) -> Wire:
        try:
            return self.wire(node, words)
        except Exception:  # of whatever it goes through; a wire that is gone is known from its end
            return _Broken()


class _Broken:
    """What is left where a wire could not be opened."""

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


def each(names: Sequence[str], act: Callable[[str], T]) -> dict[str, T]:
    """What `act` gives for each name, many at a time."""
    with ThreadPoolExecutor(min(AT_ONCE, len(names) or 1)) as pool:
        return dict(zip(names, pool.map(act, names)))


def _answer(wire: Wire, given: Iterable[bytes], seconds: float | None) -> Answer:
    timer = threading.Timer(seconds or threading.TIMEOUT_MAX, wire.cut)
    timer.daemon = True
    timer.start()
    output, errors = (_thread(lambda stream=stream: b"".join(_chunks(wire, stream))) for stream in (1, 2))
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


def _lines(wire: Wire, stream: int) -> Iterator[bytes]:
    rest = b""
    for chunk in _chunks(wire, stream):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


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


def _thread(act: Callable[..., Any], *words: Any) -> _Thread:
    return _Thread(act, words)

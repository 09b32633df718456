"""Keep a lease on several hosts: start one command on each, and read from and write to all of them together."""

from __future__ import annotations

import abc
import contextlib
import queue
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from mnrun.schedulers.hosts.channel import GONE, Channel, Thread, lines, thread, why
from mnrun.system.process import Event, tell

TICK = 10.0  # seconds between two words to each node, whose guard takes long silence for the end
LOST = 30.0  # seconds without a word from a node, which speaks every few: the node is lost


class Lease(abc.ABC):
    """A lease as one process: it reads the reports of the guards, and notices their silence."""

    def __init__(self, name: str, nodes: Iterable[str], events: queue.SimpleQueue[Event]) -> None:
        self.name = name
        self._nodes = frozenset(nodes)
        self._events = events
        self._spoke: dict[str, float] = {}  # when each guard that has spoken last spoke
        self._closed = False
        self._ended = threading.Event()

    @abc.abstractmethod
    def send(self, data: bytes, node: str = "") -> None:
        """Write to one node or to all, without waiting."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the input on all nodes after all data was sent."""

    @abc.abstractmethod
    def end(self, signum: int) -> None:
        """Give all nodes up."""

    def pulse(self) -> None:
        return  # `_tick` shows that mnrun lives

    def wait(self, seconds: float) -> bool:
        return self._ended.wait(seconds)

    def _hear(self, kind: str, line: str) -> None:
        word, node, *_ = (*line.split(), "", "")
        if node in self._nodes and word != "here":  # the guard runs, and reads
            self._spoke[node] = time.monotonic()
        if word != "alive" or node not in self._nodes:
            tell(kind, self.name, (line,), self._events)

    def _lose(self, node: str, reason: str) -> None:
        self._spoke.pop(node, None)
        self._events.put(("line", self.name, f"lost {node} {reason}"))

    def _tick(self) -> None:
        """Speak to the nodes that speak. A node that died or is cut off is silent, and its connection stays open."""
        last = time.monotonic()
        while not self._ended.wait(TICK):
            begin, last = last, time.monotonic()
            silence = {node: last - spoke for node, spoke in list(self._spoke.items())}
            # If mnrun itself was stopped, the nodes' words of that time still wait in the connections.
            if last > begin + 1.5 * TICK:
                silence = dict.fromkeys(silence, 0.0)
            for node in [node for node in silence if silence[node] > LOST]:
                self._lose(node, f"no answer from it for {silence[node]:.0f} s")
                self._give_up(node)
            well = [node for node in silence if silence[node] < LOST / 2]
            if well and not self._closed:
                self._greet(well)

    @abc.abstractmethod
    def _give_up(self, node: str) -> None:
        """Break the connection to a silent node."""

    @abc.abstractmethod
    def _greet(self, nodes: Sequence[str]) -> None:
        """Show these nodes that mnrun lives."""

    def _end(self, code: int) -> None:
        self._ended.set()
        self._events.put(("ended", self.name, code))


class ChannelLease(Lease):
    """A lease with a channel to every host."""

    def __init__(self, name: str, channels: Mapping[str, Channel], events: queue.SimpleQueue[Event]) -> None:
        super().__init__(name, channels, events)
        self._channels = dict(channels)
        self._input: dict[str, queue.Queue[bytes | None]] = {node: queue.Queue() for node in channels}
        self._given_up: set[str] = set()
        followers = [thread(self._follow, node, channel) for node, channel in self._channels.items()]
        thread(self._finish, followers)
        thread(self._tick)

    def send(self, data: bytes, node: str = "") -> None:
        for chunks in (self._input[node],) if node else self._input.values():
            chunks.put(data)

    def close(self) -> None:
        self._closed = True
        for chunks in self._input.values():
            chunks.put(None)

    def end(self, signum: int) -> None:
        for node in self._channels:
            self._give_up(node)

    def _give_up(self, node: str) -> None:
        self._given_up.add(node)
        self._channels[node].cut()

    def _greet(self, nodes: Sequence[str]) -> None:
        for node in nodes:
            self._input[node].put(b"alive\n")

    def _follow(self, node: str, channel: Channel) -> int | None:
        writer = thread(self._write, node, channel)
        readers = [thread(self._read, kind, channel, stream) for stream, kind in ((1, "line"), (2, "noise"))]
        for reader in readers:
            reader.join()  # the last words come before the end
        code = channel.wait()
        expected = node in self._given_up
        self._spoke.pop(node, None)
        self._input[node].put(None)
        writer.join()
        if not expected and code is None:
            self._lose(node, why(channel))
        elif not expected and code and not self._closed:
            self._lose(node, f"its guard ended with {code}")
        return code

    def _write(self, node: str, channel: Channel) -> None:
        with contextlib.suppress(OSError):  # the news of its end is under way
            for data in iter(self._input[node].get, None):
                channel.send(data)
            channel.shut()

    def _read(self, kind: str, channel: Channel, stream: int) -> None:
        for line in lines(channel, stream):
            self._hear(kind, line)

    def _finish(self, followers: list[Thread[int | None]]) -> None:
        codes = [follower.result() for follower in followers]
        self._end(max(GONE if code is None else code for code in codes))

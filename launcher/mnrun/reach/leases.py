"""Keep a lease on several hosts: start one command on each, and read from and write to all of them together."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from mnrun.reach.channel import GONE, VANISHED, Channel, lines, why
from mnrun.system.events import Ended, Event, Line, Lost, Noise
from mnrun.system.process import Said, Thread, put_lines

TICK = 10.0  # seconds between two words to each node, whose guard takes long silence for the end
LOST = 30.0  # seconds without a word from a node, which speaks every few: the node is lost
LAST = ("bye", "fail", "unpulled")  # words of a node after which its command may end


Chunks = Callable[[], Iterable[bytes]]


class Silence:
    """How long each node has been silent. A node that died or is cut off is silent, and its connection stays open."""

    def __init__(self, now: float) -> None:
        self._spoke: dict[str, float] = {}  # when each guard that has spoken last spoke
        self._last = now

    def hear(self, node: str, now: float) -> None:
        self._spoke[node] = now

    def forget(self, node: str) -> None:
        self._spoke.pop(node, None)

    def tick(self, now: float) -> tuple[dict[str, float], list[str]]:
        """Return the nodes that are lost, with the seconds of their silence, and those that are well."""
        begin, self._last = self._last, now
        silence = {node: now - spoke for node, spoke in list(self._spoke.items())}
        # If mnrun itself was stopped, the nodes' words of that time still wait in the connections.
        if now > begin + 1.5 * TICK:
            silence = dict.fromkeys(silence, 0.0)
        lost = {node: seconds for node, seconds in silence.items() if seconds > LOST}
        return lost, [node for node, seconds in silence.items() if seconds < LOST / 2]


class ChannelLease:
    """A lease as one process, with a channel to every host. It reads the reports of the guards."""

    def __init__(self, name: str, channels: Mapping[str, Channel], events: queue.SimpleQueue[Event]) -> None:
        self.name = name
        self._channels = dict(channels)
        self._events = events
        self._input: dict[str, queue.Queue[Chunks | None]] = {node: queue.Queue() for node in channels}
        self._silence = Silence(time.monotonic())
        self._left: set[str] = set()  # nodes that have said that they end
        self._given_up: set[str] = set()
        self._closed = False
        self._ended = threading.Event()
        followers = [Thread(self._follow, node, channel) for node, channel in self._channels.items()]
        Thread(self._finish, followers)
        Thread(self._tick)

    def send(self, data: bytes, node: str = "") -> None:
        self._put(lambda: (data,), (node,) if node else self._input)

    def feed(self, chunks: Chunks) -> None:
        """Write these to every node, as fast as each reads, until the lease is closed."""
        self._put(chunks, self._input)

    def pulse(self) -> None:
        return  # `_tick` shows that mnrun lives

    def close(self) -> None:
        self._closed = True
        self._put(None, self._input)

    def wait(self, seconds: float) -> bool:
        return self._ended.wait(seconds)

    def end(self, signum: int) -> None:
        for node in self._channels:
            self._give_up(node)

    def _put(self, data: Chunks | None, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._input[node].put(data)

    def _give_up(self, node: str) -> None:
        self._given_up.add(node)
        self._channels[node].cut()

    def _lose(self, node: str, reason: str) -> None:
        self._silence.forget(node)
        self._events.put(Lost(self.name, node, reason))

    def _tick(self) -> None:
        while not self._ended.wait(TICK):
            lost, well = self._silence.tick(time.monotonic())
            for node, seconds in lost.items():
                self._lose(node, f"no answer from it for {seconds:.0f} s")
                self._give_up(node)
            if not self._closed:
                self._put(lambda: (b"alive\n",), well)

    def _follow(self, node: str, channel: Channel) -> int | None:
        writer = Thread(self._write, node, channel)
        readers = [Thread(self._read, kind, channel, stream) for stream, kind in ((1, Line), (2, Noise))]
        for reader in readers:
            reader.join()  # the last words come before the end
        code = channel.wait()
        expected = node in self._given_up
        self._silence.forget(node)
        self._input[node].put(None)
        writer.join()
        if not expected and code is None:
            self._lose(node, why(channel))
        elif not expected and not self._closed and (code or node not in self._left):
            self._lose(node, f"its guard ended with {code}" if code else VANISHED)
        elif not expected and code:  # mpirun may notice it first, and end
            put_lines(Noise, self.name, (f"{node}: its guard ended with {code}",), self._events)
        return code

    def _write(self, node: str, channel: Channel) -> None:
        with contextlib.suppress(OSError):  # the news of its end is under way
            for data in iter(self._input[node].get, None):
                for place, part in enumerate(data()):
                    if place and self._closed:
                        break
                    channel.send(part)
            channel.shut()

    def _read(self, kind: Said, channel: Channel, stream: int) -> None:
        for line in lines(channel, stream):
            self._hear(kind, line)

    def _hear(self, kind: Said, line: str) -> None:
        word, node, *_ = (*line.split(), "", "")
        ours = node in self._channels
        if ours and word != "here":  # the guard runs, and reads
            self._silence.hear(node, time.monotonic())
        if ours and word in LAST:
            self._left.add(node)
        if word != "alive" or not ours:
            put_lines(kind, self.name, (line,), self._events)

    def _finish(self, followers: list[Thread[int | None]]) -> None:
        codes = [follower.result() for follower in followers]
        self._ended.set()
        self._events.put(Ended(self.name, max(GONE if code is None else code for code in codes)))

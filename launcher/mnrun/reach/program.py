"""Run the user's program on the first host, with mnrun's own input, output and errors."""

from __future__ import annotations

import contextlib
import os
import queue
import threading

from mnrun.reach.channel import GONE, Channel, Marked, why
from mnrun.system import process
from mnrun.system.events import Ended, Event, Lost
from mnrun.system.process import Output, Thread
from mnrun.system.terminal import background

UNHEARD = 141  # 128 + SIGPIPE


class Program:
    """A channel with mnrun's own standard input, and its output and errors, or files in their place."""

    def __init__(
        self, name: str, node: str, channel: Channel, events: queue.SimpleQueue[Event], output: Output = (None, None)
    ) -> None:
        self.name = name
        self._node = node
        self._channel = channel
        self._ended = threading.Event()
        self._unheard = False  # mnrun's own output is closed
        Thread(self._feed)
        Thread(self._finish, [Thread(self._copy, stream, output[stream - 1] or stream) for stream in (1, 2)], events)

    def send(self, data: bytes, node: str = "") -> None:
        pass

    def pulse(self) -> None:
        pass

    def close(self) -> None:
        pass

    def wait(self, seconds: float) -> bool:
        return self._ended.wait(seconds)

    def end(self, signum: int) -> None:
        self._channel.cut()

    def _feed(self) -> None:
        with contextlib.suppress(OSError):  # nobody reads any more, or mnrun has no input that it can read
            if not background():  # a read would stop us (SIGTTIN)
                while data := os.read(0, 65536):
                    self._channel.send(data)
        with contextlib.suppress(OSError):
            self._channel.shut()

    def _copy(self, stream: int, to: int) -> None:
        try:
            while data := self._channel.receive(stream):
                process.write(to, data)
        except OSError:
            self._unheard = True
            self._channel.cut()

    def _finish(self, readers: list[Thread[None]], events: queue.SimpleQueue[Event]) -> None:
        for reader in readers:
            reader.join()
        code = self._channel.wait()
        self._ended.set()
        # A client's own exit code may be the program's. Once that has begun, the lease knows whether the node is lost.
        begun = isinstance(self._channel, Marked) and self._channel.marked
        if code is None and not self._unheard and not begun:
            events.put(Lost(self.name, self._node, why(self._channel)))
        events.put(Ended(self.name, UNHEARD if self._unheard else GONE if code is None else code))

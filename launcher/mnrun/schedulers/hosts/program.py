"""Run the user's program on the first host, with mnrun's own input, output and errors."""

from __future__ import annotations

import contextlib
import os
import queue
import threading

from mnrun.schedulers.hosts.channel import GONE, Channel, Thread, thread, why
from mnrun.system import client
from mnrun.system.process import Event, Output
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
                client.write(to, data)
        except OSError:
            self._unheard = True
            self._channel.cut()

    def _finish(self, readers: list[Thread[None]], events: queue.SimpleQueue[Event]) -> None:
        for reader in readers:
            reader.join()
        code = self._channel.wait()
        self._ended.set()
        if code is None and not self._unheard:
            events.put(("line", self.name, f"lost {self._node} {why(self._channel)}"))
        events.put(("ended", self.name, UNHEARD if self._unheard else GONE if code is None else code))

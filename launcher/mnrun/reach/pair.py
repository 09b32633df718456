"""A channel by two connections of a node: `data` is a command's input and output, `side` has its errors and its code.

wrappers/entry/call.sh is the other side.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from mnrun.reach.channel import Told
from mnrun.system.process import BLOCK


class Pair:
    """The connections of one command, or of a node that waits for one. `mark` comes before the code."""

    def __init__(self, data: socket.socket, side: socket.socket, mark: str) -> None:
        self._data, self._side = data, side
        for one in (data, side):
            one.setblocking(True)
        data.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._told = Told(mark)
        self._over = threading.Event()  # no errors come any more

    def receive(self, stream: int) -> bytes:
        return read(self._data) if stream == 1 else self._next_errors()

    def send(self, data: bytes) -> None:
        self._data.sendall(data)

    def shut(self) -> None:
        self._data.shutdown(socket.SHUT_WR)

    def wait(self) -> int | None:
        self._over.wait()
        self.close()
        return self._told.code

    def cut(self) -> None:
        self._over.set()  # nobody may read the errors any more
        for one in (self._data, self._side):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for one in (self._data, self._side):
            one.close()

    def _next_errors(self) -> bytes:
        while not self._over.is_set():
            errors = self._told.take(data := read(self._side))
            if not data or self._told.code is not None:
                with contextlib.suppress(OSError):  # the node waits for that
                    self.shut()
                self._over.set()
            if errors:
                return errors
        return b""


def read(source: socket.socket) -> bytes:
    """Return the next bytes of a connection, or b"" at its end or if it broke. Without an acknowledgement at once, the
    node's next small word would wait for it (tcp(7), TCP_QUICKACK)."""
    with contextlib.suppress(OSError):
        data = source.recv(BLOCK)
        source.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return data
    return b""

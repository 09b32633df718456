"""Define a channel: a command on a host, with its three streams and its exit code."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
FILES = "see the files that it reads there, such as ~/.bashrc"
BROKEN = "the connection to it broke"
GONE = 255  # for a command whose connection went before it could say how it ended


class Channel(Protocol):
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


class Unopened:
    """A channel that did not open, with the reason."""

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


class Marked:
    """A channel to a command that a login shell starts. It begins at a mark (login_shell.py).

    Until then it drops the output, and holds the input back. The errors are those of the ssh client if no mark comes.
    """

    def __init__(self, channel: Channel, mark: str) -> None:
        self._channel = channel
        self._mark = f"{mark}\n".encode()
        self._before = {1: b"", 2: b""}  # stream -> what came before its mark
        self._begun = threading.Event()  # or the output has ended
        self._marked = self._cut = False

    def receive(self, stream: int) -> bytes:
        while data := self._channel.receive(stream):
            if stream not in self._before:
                return data
            _, found, rest = (self._before[stream] + data).partition(self._mark)
            if not found:
                self._before[stream] += data
                continue
            del self._before[stream]
            if stream == 1:
                self._marked = True
                self._begun.set()
            if rest:
                return rest
        if stream == 1:
            self._begun.set()
            return b""
        before = self._before.pop(stream, None)
        self._begun.wait()  # a user's file may have closed the errors
        return b"" if before is None or self._marked else self._unbegun(before)

    def send(self, data: bytes) -> None:
        if data:
            self._begun.wait()
            self._channel.send(data)

    def shut(self) -> None:
        self._channel.shut()

    def wait(self) -> int | None:
        return self._channel.wait()

    def cut(self) -> None:
        self._cut = True
        self._channel.cut()

    def _unbegun(self, before: bytes) -> bytes:
        """Return the errors of a command that has not begun: those of the ssh client, or the login shell's end."""
        code = self._channel.wait()
        if self._cut:
            return f"its login shell did not begin in time: {FILES}".encode()
        return before if code is None else f"its login shell ended with {code}: {FILES}".encode()


def why(channel: Channel) -> str:
    """Return the reason that the connection has gone."""
    return channel.why if isinstance(channel, Unopened) else BROKEN


@dataclass(frozen=True)
class Answer:
    """The end of a command on a host. `code` is None if the connection broke, and `late` if it ran out of time."""

    code: int | None
    out: str
    err: str
    late: bool = False


def answer(channel: Channel, data: Iterable[bytes], seconds: float) -> Answer:
    """Write `data` to the command, and return its end. Give it up after that time."""
    if isinstance(channel, Unopened):
        return Answer(None, "", channel.why)
    late = threading.Event()

    def give_up() -> None:
        late.set()
        channel.cut()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    readers = [thread(_all, channel, stream) for stream in (1, 2)]
    with contextlib.suppress(OSError):
        for chunk in data:
            channel.send(chunk)
        channel.shut()
    out, err = ((reader.result() or b"").decode("utf-8", "replace") for reader in readers)
    code = channel.wait()
    timer.cancel()
    return Answer(code, out, err, late.is_set())


def _all(channel: Channel, stream: int) -> bytes:
    return b"".join(_chunks(channel, stream))


def _chunks(channel: Channel, stream: int) -> Iterator[bytes]:
    return iter(lambda: channel.receive(stream), b"")


def lines(channel: Channel, stream: int) -> Iterator[str]:
    """Yield the lines that a command writes to a stream."""
    rest = b""
    for chunk in _chunks(channel, stream):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
    if rest:
        yield rest.decode("utf-8", "replace")


class Thread(threading.Thread, Generic[T]):
    """A thread with a result."""

    def __init__(self, act: Callable[..., T], arguments: tuple[object, ...]) -> None:
        super().__init__(daemon=True)
        self._act, self._arguments = act, arguments
        self._result: T | None = None
        self.start()

    def run(self) -> None:
        self._result = self._act(*self._arguments)

    def result(self) -> T | None:
        """Return the result at the end of the thread, or None if an error has ended it."""
        self.join()
        return self._result


def thread(act: Callable[..., T], *arguments: object) -> Thread[T]:
    """Start a function in a thread of its own."""
    return Thread(act, arguments)

"""Define a channel: a command on a host, with its three streams and its exit code."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Protocol

from mnrun.record import Record
from mnrun.system.process import Thread

FILES = "see the files that it reads there, such as ~/.bashrc"
BROKEN = "the connection to it broke"
# A client may end early, and with 0: kubectl exec does (kubernetes issue 73056).
VANISHED = "the connection to it ended before its guard did"
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


class Told:
    """The errors of a command, whose end its own shell tells behind them: a mark, the exit code and the line's end."""

    def __init__(self, mark: str) -> None:
        self.code: int | None = None
        self._mark, self._held = f"\0{mark} ".encode(), b""  # and errors that may be the beginning of a mark

    def take(self, data: bytes) -> bytes:
        """Return the next errors. Those that a process of the command writes after its end are dropped."""
        if self.code is not None:
            return b""
        errors, marked, rest = (self._held + data).partition(self._mark)
        code, ended, _ = rest.partition(b"\n")
        if ended and code.isdigit():
            self.code = int(code)
            return errors
        start = len(errors) if marked else errors.rfind(b"\0")
        if not marked and (start < 0 or not self._mark.startswith(errors[start:])):
            start = len(errors)
        self._held = errors[start:] + marked + rest
        return errors[:start]


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
    """A channel to a command that a login shell starts. It begins at a mark (login_shell.py). Until then it drops the
    output, and holds the input back. The errors are those of the ssh client if no mark comes."""

    def __init__(self, channel: Channel, mark: str) -> None:
        self._channel = channel
        self._mark = f"{mark}\n".encode()
        self._before = {1: b"", 2: b""}  # stream -> what came before its mark
        self._begun = threading.Event()  # or the output has ended
        self.marked = self._cut = False

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
                self.marked = True
                self._begun.set()
            if rest:
                return rest
        if stream == 1:
            self._begun.set()
            return b""
        before = self._before.pop(stream, None)
        self._begun.wait()  # a user's file may have closed the errors
        return b"" if before is None or self.marked else self._unbegun(before)

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
        return before if code is None else unbegun(code).encode()


def unbegun(code: int) -> str:
    """Return the error of a command whose login shell ended before it."""
    return f"its login shell ended with {code}: {FILES}"


def why(channel: Channel) -> str:
    """Return the reason that the connection has gone."""
    return getattr(channel, "why", "") or BROKEN


class Answer(Record):
    """The end of a command on a host. `code` is None if the connection broke, and `late` if it ran out of time."""

    code: int | None
    out: str
    err: str
    late: bool = False


def answer(channel: Channel, data: Iterable[bytes], seconds: float) -> Answer:
    """Write `data` to the command, and return its end. Give it up after that time."""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        channel.cut()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    readers = [Thread(lambda stream: b"".join(_chunks(channel, stream)), stream) for stream in (1, 2)]
    with contextlib.suppress(OSError):
        for chunk in data:
            channel.send(chunk)
        channel.shut()
    out, err = ((reader.result() or b"").decode("utf-8", "replace") for reader in readers)
    code = channel.wait()
    timer.cancel()
    if code is None and not err and not late.is_set():
        err = getattr(channel, "why", "")
    return Answer(code, out, err, late.is_set())


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

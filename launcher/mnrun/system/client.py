"""Run a scheduler's client in the foreground with mnrun's streams, but for lines that are the client's own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO

from mnrun.model import Command
from mnrun.record import Record
from mnrun.system.process import starting, tied, write

PASSED = (signal.SIGTERM, signal.SIGHUP)
NEVER = rb"(?!)"  # matches no line


class Own(Record):
    """Lines of a client's own, which mnrun's last line says better, or `instead`, with groups of the pattern: their
    begins, and a pattern of whole lines. Nobody needs a `needless` line."""

    begins: tuple[bytes, ...] = ()
    pattern: bytes = NEVER
    instead: bytes = b""
    needless: bytes = NEVER

    def words(self, line: str) -> str | None:
        """Return what a line is for people, or None if nobody needs it."""
        shown = self.shown(line.encode("utf-8", "surrogateescape"))
        return None if shown is None else shown.decode("utf-8", "surrogateescape")

    def shown(self, line: bytes) -> bytes | None:
        """Return what a line without its end is for people, or None if nobody needs it."""
        if re.fullmatch(self.needless, line):
            return None
        found = re.fullmatch(self.pattern, line)
        return (found.expand(self.instead) or None) if found else line

    def has(self, line: str) -> bool:
        """Return whether nobody needs this line."""
        return self.words(line) is None


NOTHING = Own()


def run(command: Command, environ: Mapping[str, str], own: Own, output: int | None = None, first: bytes = b"") -> int:
    """Return the exit code of a command. The lines of its errors that are its own are left out. So is everything before
    its mark, until which it has no input. `output` is an open file in place of mnrun's output.

    A command that gets `first` before mnrun's input is a connection. It ends with its input, and not with a terminal:
    ssh sends a SIGHUP as it leaves (sshconnect.c).
    """
    words, mark = command.argv, f"{command.mark}\n".encode() if command.mark else b""
    fed = subprocess.PIPE if mark or first else None
    heard = subprocess.PIPE if mark else output
    with starting(words[0]):
        process = subprocess.Popen(tied(words), env=environ, stdin=fed, stdout=heard, stderr=subprocess.PIPE, bufsize=0)
    assert process.stderr is not None
    feeder = threading.Thread(target=_feed, args=(process.stdin, first), daemon=True)
    with _patient(process, PASSED[:1] if first else PASSED):
        copier = threading.Thread(target=_copy, args=(feeder, process.stdout, output or 1, mark), daemon=True)
        if mark:
            copier.start()
        elif first:
            feeder.start()
        for data in without(after(chunks(process.stderr.fileno()), mark), own):
            write(2, data)
        if mark:
            copier.join()
        code = process.wait()
    return 128 - code if code < 0 else code


def _copy(feeder: threading.Thread, source: IO[bytes], output: int, mark: bytes) -> None:
    """Copy a command's output from its mark on, and its input meanwhile."""
    with source, suppress(BrokenPipeError):  # nobody reads any more, and the command learns it
        for data in after(chunks(source.fileno()), mark):
            if not feeder.ident:
                feeder.start()
            write(output, data)


def _feed(target: IO[bytes], first: bytes) -> None:
    with suppress(OSError), target:  # the command reads no more, or there is no input
        write(target.fileno(), first)
        for data in chunks(0):
            write(target.fileno(), data)


def chunks(source: int) -> Iterator[bytes]:
    """Yield the bytes of a pipe as they come."""
    while data := os.read(source, 65536):
        yield data


def after(parts: Iterator[bytes], mark: bytes) -> Iterator[bytes]:
    """Yield the bytes after the first `mark`, or all of them at the end if there is none."""
    before = b""
    for data in parts:
        before += data
        _, found, rest = before.partition(mark) if mark else (b"", True, before)
        if found:
            yield rest
            yield from parts
            return
    yield before


def without(parts: Iterator[bytes], own: Own) -> Iterator[bytes]:
    """Yield the bytes without a client's own lines. The begin of a line waits only if it may be such a line."""
    if not own.begins:
        yield from parts
        return
    rest = b""
    for data in parts:
        whole, end, rest = (rest + data).rpartition(b"\n")
        if any(begin in whole for begin in own.begins):  # a program may write millions of lines
            yield b"".join(_shown(line, own) for line in whole.split(b"\n"))
        else:
            yield whole + end
        if not any(rest.startswith(begin[: len(rest)]) for begin in own.begins):
            yield rest
            rest = b""
    yield rest


def _shown(line: bytes, own: Own) -> bytes:
    bare = line.rstrip(b"\r")
    shown = own.shown(bare)
    return b"" if shown is None else (line if shown == bare else shown) + b"\n"


@contextmanager
def _patient(process: subprocess.Popen[bytes], passed: Sequence[signal.Signals]) -> Iterator[None]:
    """Leave a Ctrl-C to the command, which gets it from the terminal, and pass on the signals that end it."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on if number in passed else signal.SIG_IGN) for number in PASSED}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

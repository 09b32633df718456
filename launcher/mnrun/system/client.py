"""Run a scheduler's client in mnrun's place: its streams are mnrun's, but for lines that are only the client's own."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO

from mnrun.model import Command
from mnrun.system.process import starting, tied

# srun's line about tasks that failed, or that it has ended. mnrun's last line says more. prterun may leave a blank.
EXITED = re.compile(rb" *srun: error: \S+: tasks? [\d,-]+: (Exited with exit code \d+|Terminated)")
PASSED = (signal.SIGTERM, signal.SIGHUP)


def run(command: Command, environ: Mapping[str, str], own: re.Pattern[bytes], output: int | None = None) -> int:
    """Return the exit code of a command. Whole lines of its errors that match `own` are left out.

    So is everything before its mark, until which it has no input. `output` is an open file in place of mnrun's output.
    """
    words, mark = command.argv, f"{command.mark}\n".encode() if command.mark else b""
    fed, heard = (subprocess.PIPE, subprocess.PIPE) if mark else (None, output)
    with starting(words[0]):
        process = subprocess.Popen(tied(words), env=environ, stdin=fed, stdout=heard, stderr=subprocess.PIPE, bufsize=0)
    assert process.stderr is not None
    with _patient(process):
        copier = threading.Thread(target=_copy, args=(process.stdin, process.stdout, output or 1, mark), daemon=True)
        if mark:
            copier.start()
        for data in without(after(chunks(process.stderr.fileno()), mark), own):
            write(2, data)
        if mark:
            copier.join()
        code = process.wait()
    return 128 - code if code < 0 else code


def _copy(target: IO[bytes], source: IO[bytes], output: int, mark: bytes) -> None:
    """Copy a command's output from its mark on, and its input meanwhile."""
    feeder = threading.Thread(target=_feed, args=(target,), daemon=True)
    with source, suppress(BrokenPipeError):  # nobody reads any more, and the command learns it
        for data in after(chunks(source.fileno()), mark):
            if not feeder.ident:
                feeder.start()
            write(output, data)


def _feed(target: IO[bytes]) -> None:
    with suppress(OSError), target:  # the command reads no more, or there is no input
        for data in chunks(0):
            write(target.fileno(), data)


def chunks(source: int) -> Iterator[bytes]:
    """Yield the bytes of a pipe as they come."""
    while data := os.read(source, 65536):
        yield data


def write(target: int, data: bytes) -> None:
    """Write all bytes, also where another program has made a shared terminal or pipe non-blocking."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            select.select((), (target,), ())


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


def without(parts: Iterator[bytes], own: re.Pattern[bytes]) -> Iterator[bytes]:
    """Yield the bytes as they come, without whole lines that match `own`.

    The begin of a line waits for the rest only if it may be such a line: `own` begins with the text `srun: `.
    """
    begin, rest = b"srun: ", b""
    for data in parts:
        whole, end, rest = (rest + data).rpartition(b"\n")
        if begin in whole:  # a program may write millions of lines
            yield b"".join(line + b"\n" for line in whole.split(b"\n") if not own.fullmatch(line))
        else:
            yield whole + end
        if not rest.startswith(begin[: len(rest)]):
            yield rest
            rest = b""
    yield rest


@contextmanager
def _patient(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave a Ctrl-C to the command, which gets it from the terminal, and pass on the signals that end it."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in PASSED}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

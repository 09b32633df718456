"""Run a scheduler's client in mnrun's place: its streams are mnrun's, but for lines that are only the client's own."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from mnrun.model import Words
from mnrun.system.process import starting, tied

# srun's line about a command that failed as its only task. The exit code says the same. prterun may leave a blank.
EXITED = re.compile(rb" *srun: error: \S+: task 0: Exited with exit code \d+")
PASSED = (signal.SIGTERM, signal.SIGHUP)


def run(words: Words, environ: Mapping[str, str], own: re.Pattern[bytes], output: int | None = None) -> int:
    """Return the exit code of a command. Whole lines of its errors that match `own` are left out.

    `output` is an open file in place of mnrun's output.
    """
    with starting(words[0]):
        process = subprocess.Popen(tied(words), env=environ, stdout=output, stderr=subprocess.PIPE, bufsize=0)
    assert process.stderr is not None
    with _patient(process):
        for data in without(chunks(process.stderr.fileno()), own):
            write(2, data)
        code = process.wait()
    return 128 - code if code < 0 else code


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

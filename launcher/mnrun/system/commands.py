"""Run a short command of the scheduler, or a call into its library, within a time limit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from mnrun.errors import NoAnswerError, SchedulerError

T = TypeVar("T")


@contextmanager
def deaf_to(*signals: signal.Signals) -> Iterator[None]:
    """Let the commands that this thread starts outlive these signals. Grid Engine sends USR2 to a job's whole process
    group, and more than once (seen, 8.1.9): it would end the question that the first one has caused."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # a new process inherits the mask (signal(7))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_begun: dict[Sequence[str], subprocess.Popen[str]] = {}
_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}


def begin(words: tuple[str, ...], environ: Mapping[str, str]) -> None:
    """Start a command without input that `captured` will be asked for. It runs while Python imports what comes next."""
    pipe = subprocess.PIPE
    with suppress(OSError), deaf_to(signal.SIGUSR1, signal.SIGUSR2):  # `captured` tells of the error
        _begun[words] = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environ, **_TEXT
        )


def captured(
    words: Sequence[str],
    seconds: float,
    environ: Mapping[str, str] | None = None,
    text: str = "",
    executable: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Return the ended command with its output. `text` is its standard input, and `executable` its file, if that is not
    on PATH. Raises as subprocess.run does."""
    if process := _begun.pop(tuple(words), None):
        with process:
            try:
                output, errors = process.communicate(timeout=seconds)
            except BaseException:
                process.kill()  # the end of `with` waits for it
                raise
        return subprocess.CompletedProcess(words, process.returncode, output, errors)
    with deaf_to(signal.SIGUSR1, signal.SIGUSR2):
        return subprocess.run(
            words,
            executable=executable,
            **({"input": text} if text else {"stdin": subprocess.DEVNULL}),
            capture_output=True,
            env=environ,
            timeout=seconds,
            check=False,
            **_TEXT,
        )


def run(
    words: Sequence[str],
    seconds: float,
    environ: Mapping[str, str] | None = None,
    *,
    instead: str,
    daemon: str = "",
    text: str = "",
    executable: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Return the ended command with its output, as `captured` does. Raises SchedulerError if the command cannot start
    (`instead` is a remedy), and NoAnswerError after `seconds`: `daemon` should have answered."""
    try:
        return captured(words, seconds, environ, text, executable)
    except FileNotFoundError:
        raise SchedulerError(f"{words[0]} is not on PATH", instead) from None
    except OSError as error:  # a directory of PATH may be closed
        raise SchedulerError(f"{words[0]} cannot start: {error.strerror}", f"check PATH, or {instead}") from None
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode("utf-8", "replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        raise _silent(words[0], seconds, daemon, output) from None


def call(name: str, ask: Callable[[], T], seconds: float, daemon: str = "") -> T | None:
    """Return the result of `ask`, called in a child process, or None if it fails or ends its process. A library call
    that hangs ignores everything but a kill. Raises SchedulerError after `seconds`."""
    import multiprocessing  # imported here, since it would delay every start and few runs need it

    fork = multiprocessing.get_context("fork")
    reader, writer = fork.Pipe(duplex=False)
    child = fork.Process(target=_answer, args=(ask, writer), daemon=True)
    child.start()
    writer.close()
    try:
        if not reader.poll(seconds):
            raise _silent(name, seconds, daemon)
        result: T = reader.recv()
        return result
    except EOFError:
        return None
    finally:
        child.kill()
        child.join()


def _answer(ask: Callable[[], object], writer: Any) -> None:
    with suppress(Exception):  # at any error, the caller has another way
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the library's error messages must not appear as mnrun's
        writer.send(ask())


def _silent(name: str, seconds: float, daemon: str, output: str = "") -> SchedulerError:
    about = f" about {daemon}" if daemon else ""
    return NoAnswerError(f"{name} did not answer within {seconds:.0f} s", f"ask the cluster's admins{about}", output)


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """Return one line of a failed command's own words, with the name of its program. The command itself stays out."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b", line)]
    line = (errors or lines[-1:] or [f"exit code {done.returncode}"])[0]
    return line if line.startswith(f"{done.args[0]}: ") else f"{done.args[0]}: {line}"


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""

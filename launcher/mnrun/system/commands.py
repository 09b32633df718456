"""Run a short command of the scheduler, or a call into its library, within a time limit."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from mnrun.errors import NoAnswerError, SchedulerError

T = TypeVar("T")


def run(
    words: Sequence[str],
    seconds: float,
    environ: Mapping[str, str] | None = None,
    *,
    instead: str = "use --local",
    text: str = "",
) -> subprocess.CompletedProcess[str]:
    """Return the ended command with its output. `text` is its standard input.

    Raises SchedulerError if the command cannot start (`instead` is a remedy), and NoAnswerError after `seconds`.
    """
    try:
        return subprocess.run(
            words,
            **({"input": text} if text else {"stdin": subprocess.DEVNULL}),
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            env=environ,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise SchedulerError(f"{words[0]} is not on PATH", f"load Slurm's module, or {instead}") from None
    except OSError as error:  # a directory of PATH may be closed
        raise SchedulerError(f"{words[0]} cannot start: {error.strerror}", f"check PATH, or {instead}") from None
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode("utf-8", "replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        raise _silent(words[0], seconds, output) from None


def call(name: str, ask: Callable[[], T], seconds: float) -> T | None:
    """Return the result of `ask`, called in a child process, or None if it fails or ends its process.

    A library call that hangs ignores everything but a kill. Raises SchedulerError after `seconds`.
    """
    import multiprocessing  # imported here, since it would delay every start and few runs need it

    fork = multiprocessing.get_context("fork")
    reader, writer = fork.Pipe(duplex=False)
    child = fork.Process(target=_answer, args=(ask, writer), daemon=True)
    child.start()
    writer.close()
    try:
        if not reader.poll(seconds):
            raise _silent(name, seconds)
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


def _silent(name: str, seconds: float, output: str = "") -> SchedulerError:
    problem = f"{name} did not answer within {seconds:.0f} s"
    return NoAnswerError(problem, "ask the cluster's admins about slurmctld", output)


def unreached(done: subprocess.CompletedProcess[str]) -> bool:
    """Return whether a command could not reach slurmctld."""
    words = r"nable to contact|onnection refused|onnection failure"
    return done.returncode != 0 and re.search(words, done.stderr) is not None


def refuse_silence(done: subprocess.CompletedProcess[str]) -> None:
    """Raise SchedulerError if a command could not reach slurmctld: another command would not reach it either."""
    late = done.returncode != 0 and "timed out" in done.stderr
    if late or unreached(done):
        kind = NoAnswerError if late else SchedulerError
        raise kind(complaint(done), "slurmctld does not answer: ask the cluster's admins")


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """Return one line of a failed command's own words, with the name of its program. The command itself stays out."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b", line)]
    line = (errors or lines[-1:] or [f"exit code {done.returncode}"])[0]
    return line if line.startswith(f"{done.args[0]}: ") else f"{done.args[0]}: {line}"


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""

"""Run a command, say what is being done, and show the end of its output when it fails."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .errors import ClusterError

TAIL = 25


def say(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def tail(text: str, lines: int = TAIL) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines()[-lines:])


def run(
    argv: Sequence[str | os.PathLike[str]], *, text: str = "", env: Mapping[str, str] | None = None, check: bool = True
) -> str:
    """The command's output, stdout and stderr together; `text` is its standard input."""
    words = [os.fspath(word) for word in argv]
    if os.environ.get("MNRUN_CLUSTER_DEBUG"):
        say("+ " + " ".join(words)[:500])
    done = subprocess.run(
        words, input=text, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", errors="replace", check=False,
    )  # fmt: skip
    if check and done.returncode:
        raise ClusterError(f"{' '.join(words)[:200]}: exit code {done.returncode}\n{tail(done.stdout)}")
    return done.stdout


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; the kernel lets go of it with the process, however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not inheritable (Python's default), so no daemon that we start keeps it.
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(20):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.1)
        else:
            say(f"waiting for another process that holds {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def beside(place: Path) -> Iterator[Path]:
    """A folder next to `place` to build in, for who holds its lock; gone afterwards."""
    place.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{place.name}-"
    # With the lock held, these are what a killed build left.
    for stale in place.parent.glob(f"{prefix}*"):
        shutil.rmtree(stale)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place.parent) as folder:
        yield Path(folder)


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Say what begins, and how long it took."""
    say(f"{what} …")
    begin = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - begin:.1f} s")

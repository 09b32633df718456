"""What a launch leaves where it was started: its log, and a record of each node that became ready."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO

from mnrun.errors import UsageError
from mnrun.jobs.records import SCRIPT, SUBMITTED, Submitted, text
from mnrun.model import Worker

OWNER = "launcher"  # the file that names host and pid while a launch is under way


class Records:
    """The directory of one launch, 0700. The nodes need not see it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log: IO[bytes] | None = None  # held open: on a shared filesystem each opening takes long

    def write(self, name: str, text: str) -> None:
        """Whole or not at all: written beside and renamed."""
        beside = self.path / f".{name}.new"
        self._put(beside, os.O_TRUNC, text)
        os.replace(beside, self.path / name)

    def log(self, line: str) -> None:
        with suppress(OSError):  # a disk that fills up later is no reason to lose the job
            if self._log is None:
                self._log = self._opened(self.path / "log", os.O_APPEND, buffering=0)
            self._log.write((line + "\n").encode("utf-8", "surrogateescape"))

    def close(self) -> None:
        """Nothing is logged any more."""
        if self._log is not None:
            self._log.close()
        self._log = None

    def _put(self, path: Path, how: int, text: str) -> None:
        with self._opened(path, how) as file:
            file.write(text.encode("utf-8", "surrogateescape"))

    @staticmethod
    def _opened(path: Path, how: int, buffering: int = -1) -> IO[bytes]:
        """0600 whatever the umask."""
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600), "wb", buffering)

    def fabric(self, lines: Iterable[str]) -> None:
        """What was chosen for this job's ranks, and why; what its nodes have said, the log has."""
        with suppress(OSError):
            self.write("fabric", "".join(f"{line}\n" for line in lines))

    def ready(self, worker: Worker) -> None:
        with suppress(OSError):
            self.write(f"node.{worker.name}.json", json.dumps(asdict(worker)) + "\n")

    def prove(self, summary: str, topologies: Mapping[str, Sequence[str]]) -> None:
        """What the run has shown, and each node's GPUs and network as `nvidia-smi topo -m` drew them."""
        with suppress(OSError):
            self.write("summary", summary + "\n")
            for node, lines in topologies.items():
                self.write(f"topology.{node}", "\n".join(lines) + "\n")


@contextmanager
def opened(parent: str, job: str, keep: bool) -> Iterator[Records]:
    """The launch's directory under `parent`, gone at the end unless `keep`.

    Raises UsageError where it cannot be made or written (rights, a full disk).
    """
    path = Path(parent) / job
    _clear(path.parent)
    try:
        for above in reversed([p for p in path.parents if not p.exists()]):
            above.mkdir(exist_ok=True)
            above.chmod(0o700)  # whatever the umask
        path.mkdir()
        path.chmod(0o700)
        records = Records(path)
        records.write(OWNER, f"{platform.node()} {os.getpid()}\n")
    except FileExistsError:
        raise UsageError(f"{path} exists: two launches of one name", "start again") from None
    except OSError as error:
        shutil.rmtree(path, ignore_errors=True)
        raise UsageError(
            f"cannot write to the job directory {path}: {error.strerror}", "name another with --job-dir"
        ) from None
    try:
        yield records
    finally:
        records.close()
        (path / OWNER).unlink(missing_ok=True)
        if not keep:
            shutil.rmtree(path, ignore_errors=True)


def _clear(parent: Path) -> None:
    """Remove what launches on this machine left that were killed before they could."""
    for owner in parent.glob(f"*/{OWNER}"):
        try:
            host, pid = owner.read_text(encoding="utf-8").split()
            if host == platform.node() and not Path("/proc", pid).exists():
                shutil.rmtree(owner.parent, ignore_errors=True)
        except (OSError, ValueError):
            continue


def writable(base: str) -> None:
    """Make the directory of all jobs' records. Raises UsageError where nothing can be written there."""
    path = Path(base)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b" ")
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}", "name another with --job-dir") from None


def submitted(base: str, record: Submitted, script: str) -> None:
    """Note what was handed in, where its followers look for it; a failure to is no reason to lose the job."""
    records = Records(Path(base) / record.id)
    with suppress(OSError):
        records.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        records.write(SCRIPT, script)
        records.write(SUBMITTED, text(record))

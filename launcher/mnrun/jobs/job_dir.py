"""Write the directory of a launch where it was started: its log, and a record of the nodes that became ready."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from mnrun import versioned
from mnrun.errors import LaunchError, UsageError
from mnrun.jobs import archive, launches, timeline
from mnrun.jobs.launches import OWNER as OWNER
from mnrun.jobs.records import LOG, OUTCOME, SCRIPT, SUBMITTED, TIMELINE, Ended, Submitted
from mnrun.jobs.timeline import Moments, NodeMoments, Timeline
from mnrun.jobspec import JobSpec, gpu_count
from mnrun.model import Plan, Site, Worker, job_name
from mnrun.system.clock import Clock
from mnrun.system.paths import entered, private, shared_badly
from mnrun.system.screen import Screen
from mnrun.system.signals import held


@dataclass(frozen=True)
class Ready:
    """The nodes that were ready, as `nodes.json` has them."""

    nodes: tuple[Worker, ...]


class Records:
    """The directory of one launch, with mode 0700. The nodes need not see it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = Clock()
        self._log: IO[bytes] | None = None  # stays open, since each opening takes long on a shared filesystem

    def write(self, name: str, text: str) -> None:
        """Write the file whole or not at all: beside its name, then renamed."""
        beside = f".{name}.new"
        with entered(self.path) as place:
            with self._opened(place, beside, os.O_TRUNC) as file:
                file.write(text.encode("utf-8", "surrogateescape"))
            os.replace(beside, name, src_dir_fd=place, dst_dir_fd=place)

    def log(self, line: str, word: str = "") -> None:
        """Write a line that the guards have sent. `word` is its first one, if that is a word of ours."""
        if word in timeline.WORDS:
            self.clock.mark(word, line.split(" ", 2)[1])
        with suppress(OSError):  # a full disk must not end the job
            if self._log is None:
                with entered(self.path) as place:
                    self._log = self._opened(place, LOG, os.O_APPEND, buffering=0)
            self._log.write((line + "\n").encode("utf-8", "surrogateescape"))

    def close(self) -> None:
        """End the log."""
        if self._log is not None:
            self._log.close()
        self._log = None

    def timeline(self, job: str, nodes: Iterable[str]) -> Timeline:
        """Record the timeline of the launch, which ends now, and return it."""
        self.clock.mark("over")
        by_node = {node: NodeMoments(**self.clock.nodes.get(node, {})) for node in nodes}
        found = Timeline(job, Moments(**self.clock.moments), by_node)
        with suppress(OSError):
            self.write(TIMELINE, versioned.text(found))
        return found

    @staticmethod
    def _opened(place: int, name: str, how: int, buffering: int = -1) -> IO[bytes]:
        """Open a file in an open directory, with mode 0600 under any umask. A link is not followed."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how
        return os.fdopen(os.open(name, flags, 0o600, dir_fd=place), "wb", buffering)

    def fabric(self, lines: Iterable[str]) -> None:
        """Record the networks chosen for the ranks, with the reasons. The log has the facts that the nodes reported."""
        with suppress(OSError):
            self.write("fabric", "".join(f"{line}\n" for line in lines))

    def launched(self, plan: Plan, site: Site) -> None:
        """Record where the launch runs, for commands that enter it."""
        gpus = {} if plan.spec.resources.no_gpu else {n: site.gpus[n] for n in plan.layout.nodes if site.gpus.get(n)}
        hosts = plan.spec.hosts
        record = launches.LaunchRecord(
            job=plan.job,
            scheduler=site.scheduler,
            number=site.job,
            node_dir=plan.node_dir,
            nodes=plan.layout.nodes,
            gpus=gpus,
            binds=site.binds,
            ssh_user=hosts.ssh_user,
            ssh_port=hosts.ssh_port or 0,
            title=job_name(plan.spec),
            begun=time.time(),
            runtime=plan.spec.container.runtime,
            script=site.script,
        )
        with suppress(OSError):
            self.write(launches.LAUNCH, versioned.text(record))

    def ready(self, workers: Iterable[Worker]) -> None:
        """Record the nodes. All are in one file, since a shared filesystem may take milliseconds to make a file."""
        with suppress(OSError):
            self.write("nodes.json", versioned.text(Ready(tuple(workers))))

    def ended(self, code: int, why: str) -> None:
        """Record the exit code, and the reason if there is one."""
        with suppress(OSError):
            self.write(OUTCOME, versioned.text(Ended(time.time(), code, why)))

    def prove(self, summary: str, topologies: Mapping[str, Sequence[str]]) -> None:
        """Record the summary of the run, and each node's topology as `nvidia-smi topo -m` prints it."""
        with suppress(OSError):
            self.write("summary", summary + "\n")
            for node, lines in topologies.items():
                self.write(f"topology.{node}", "\n".join(lines) + "\n")


@contextmanager
def opened(parent: str, job: str, keep: bool) -> Iterator[Records]:
    """Make the launch's directory under `parent`, and remove it at the end unless `keep`.

    Raises UsageError if the directory cannot be made or written (permissions, a full disk).
    """
    path = Path(parent) / job
    try:
        make_base(path.parent)
        _clear(path.parent)
        path.mkdir()
        path.chmod(0o700)
        records = Records(path)
        records.write(OWNER, launches.mark())
    except FileExistsError:
        raise UsageError(f"{path} exists: two launches have this name", "start again") from None
    except OSError as error:
        shutil.rmtree(path, ignore_errors=True)
        raise UsageError(
            f"cannot write to the job directory {path}: {error.strerror}", "name another with --job-dir"
        ) from None
    try:
        yield records
    except LaunchError as error:
        if keep:
            records.ended(error.code, error.message)
        raise
    finally:
        records.close()
        with held():
            with suppress(OSError):  # a read-only file system must not hide the exit code
                (path / OWNER).unlink(missing_ok=True)
            if not keep:
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def timed(clock: Clock, plan: Plan, records: Records, screen: Screen) -> Iterator[None]:
    """Enclose a launch. After it, write its timeline into the records, and into the file of --timeline.

    Raises UsageError before the launch if that file cannot be written.
    """
    records.clock = clock
    path = plan.spec.timeline
    if path:
        _write(path, "")
    try:
        yield
    finally:
        found = records.timeline(plan.job, plan.layout.nodes)
        try:
            if path:
                _write(path, versioned.text(timeline.trace(found)))
        except UsageError as error:  # the outcome of the launch counts for more
            screen.warn(str(error))


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--timeline {path}: {error.strerror}", "name a file that you can write") from None


def _clear(parent: Path) -> None:
    """Remove the directories of launches on this machine that were killed before they could do so."""
    for folder in launches.folders(parent):
        if launches.whereabouts(folder) == launches.GONE:
            shutil.rmtree(folder, ignore_errors=True)


def make_base(path: Path) -> None:
    """Make the directory for the records of all jobs. Raises UsageError if others may change it, or OSError."""
    private(path)
    if fault := shared_badly(path):
        raise UsageError(f"cannot keep records in {path}: {fault}", "name a directory of your own with --job-dir")


def writable(base: str) -> None:
    """Make the directory for the records of all jobs. Raises UsageError if it cannot be written."""
    path = Path(base)
    try:
        make_base(path)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b" ")
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}", "name another with --job-dir") from None


def submitted(spec: JobSpec, record: Submitted, script: str = "") -> None:
    """Record a submitted job where the other verbs look for it. A full disk must not lose the job.

    Raises UsageError if another user has made its directory.

    `record` needs no values that the job itself has: its command and its GPUs.
    """
    command = (spec.program.script, *spec.program.command) if spec.program.script else spec.program.command
    whole = replace(record, command=command, gpus=gpu_count(spec.resources.gpus), time=time.time())
    base = Path(spec.job_dir)
    records = Records(base / record.id)
    try:
        private(records.path)
        if script:
            records.write(SCRIPT, script)
        records.write(SUBMITTED, versioned.text(whole))
    except (PermissionError, NotADirectoryError) as error:
        problem = f"its records cannot lie in {records.path}: {error.strerror}"
        raise UsageError(problem, "name a directory of your own with --job-dir") from None
    except OSError:
        pass
    archive.remember(Path.home(), base)
    archive.forget_some(base, time.time())

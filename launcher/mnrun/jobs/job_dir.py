"""Write the directory of a launch where it was started: its log, and a record of the nodes that became ready."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mnrun import versioned
from mnrun.errors import BUG, LaunchError, Requeued, UsageError, tell
from mnrun.jobs import archive, launches
from mnrun.jobs.launches import OWNER as OWNER
from mnrun.jobs.records import (
    LOG,
    OUTCOME,
    REQUEST,
    REQUEUED,
    SAMPLES,
    SCRIPT,
    SUBMITTED,
    TIMELINE,
    Ended,
    Requested,
    Submitted,
)
from mnrun.jobspec import JobSpec, gpu_count
from mnrun.model import UNKNOWN_IMAGE, ImageIdentity, Outcome, Plan, Site, Worker, job_name
from mnrun.schedulers.vocabulary import is_id
from mnrun.system.clock import Clock
from mnrun.system.paths import entered, private, shared_badly
from mnrun.system.screen import Screen
from mnrun.system.signals import held
from mnrun.watching import kept

if TYPE_CHECKING:
    from mnrun.jobs.timeline import Timeline


@dataclass(frozen=True)
class Ready:
    """The nodes that were ready, as `nodes.json` has them, and the image that they had."""

    nodes: tuple[Worker, ...]
    image: ImageIdentity = UNKNOWN_IMAGE


class Records:
    """The directory of one launch, with mode 0700. The nodes need not see it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = Clock()
        self.outcome: Outcome | None = None  # of the launch, once it has ended without an error
        self.end: Ended | None = None  # of the launch, also by an error
        self.times: Timeline | None = None  # of the launch, once it has ended
        # These stay open, since each opening takes long on a shared filesystem.
        self._log: IO[bytes] | None = None
        self._samples: IO[bytes] | None = None
        self._thinner = kept.Thinner()

    def write(self, name: str, text: str) -> None:
        """Write the file whole or not at all: beside its name, then renamed."""
        beside = f".{name}.new"
        with entered(self.path) as place:
            with self._opened(place, beside, os.O_TRUNC) as file:
                file.write(text.encode("utf-8", "surrogateescape"))
            os.replace(beside, name, src_dir_fd=place, dst_dir_fd=place)

    def log(self, line: str, word: str = "") -> None:
        """Write a line that the guards have sent. `word` is its first one, if that is a word of ours."""
        if word == kept.WORD:
            with suppress(OSError):
                self._sample(line + "\n")
            return
        from mnrun.jobs import timeline  # at the first word of a node, which starts meanwhile

        if word in timeline.WORDS:
            self.clock.mark(word, line.split(" ", 2)[1])
        with suppress(OSError):  # a full disk must not end the job
            if self._log is None:
                with entered(self.path) as place:
                    self._log = self._opened(place, LOG, os.O_APPEND, buffering=0)
            self._log.write((line + "\n").encode("utf-8", "surrogateescape"))

    def _sample(self, line: str) -> None:
        if not self._thinner.takes(line):
            return
        if self._samples is None:
            with entered(self.path) as place:
                self._samples = self._opened(place, SAMPLES, os.O_APPEND, buffering=0)
        self._samples.write(line.encode("utf-8", "surrogateescape"))
        if self._samples.tell() > kept.LIMIT:
            self._samples.close()
            self._samples = None
            self._thinner.stride *= 2
            self.write(SAMPLES, kept.thinned(archive.text(self.path, SAMPLES)))

    def used(self) -> str:
        """Return in a line what the samples say, or "" without any."""
        from mnrun.watching import series

        return str(series.used(series.read_all(archive.text(self.path, SAMPLES))) or "")

    def close(self) -> None:
        for file in filter(None, (self._log, self._samples)):
            file.close()
        self._log = self._samples = None

    @contextmanager
    def timed(self, job: str, nodes: Iterable[str]) -> Iterator[None]:
        """Enclose the launch of this name on these nodes, and record its timeline after it."""
        try:
            yield
        finally:
            from mnrun.jobs import timeline

            self.clock.mark("over")
            by_node = {node: timeline.NodeMoments(**self.clock.nodes.get(node, {})) for node in nodes}
            self.times = timeline.Timeline(job, timeline.Moments(**self.clock.moments), by_node)
            self.note(TIMELINE, versioned.text(self.times))

    @staticmethod
    def _opened(place: int, name: str, how: int, buffering: int = -1) -> IO[bytes]:
        """Open a file in an open directory, with mode 0600 under any umask. A link is not followed."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how
        return os.fdopen(os.open(name, flags, 0o600, dir_fd=place), "wb", buffering)

    def note(self, name: str, text: str) -> None:
        """Write a file without which the job goes on, as on a full disk."""
        with suppress(OSError):
            self.write(name, text)

    def launched(self, plan: Plan, site: Site, own: bool = False) -> None:
        """Record where the launch runs, for commands that enter it. `own`: mnrun has got the job for it."""
        gpus = {} if plan.spec.resources.no_gpu else {n: site.gpus[n] for n in plan.layout.nodes if site.gpus.get(n)}
        spec, hosts = plan.spec, plan.spec.hosts
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
            beside=site.beside,
            image=plan.spec.container.image_name,
            command=(spec.program.script, *spec.program.command) if spec.program.script else spec.program.command,
            mode=spec.start.mode,
            starter=plan.starter,
            asked=time.time() - self.clock.age,
            own=own,
        )
        self.note(launches.LAUNCH, versioned.text(record))

    def ready(self, workers: Iterable[Worker], image: ImageIdentity = UNKNOWN_IMAGE) -> None:
        """Record the nodes. All are in one file, since a shared filesystem may take milliseconds to make a file."""
        self.note(launches.READY, versioned.text(Ready(tuple(workers), image)))

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Enclose a launch, and note its end: `outcome`, or the error that is raised, which is shown first."""
        code, why, reason = BUG, "", ""
        try:
            yield
            if self.outcome is not None:
                code, why, reason = self.outcome.code, self.outcome.why, self.outcome.reason
        except LaunchError as error:
            code, why, reason = tell(error), REQUEUED if isinstance(error, Requeued) else error.message, error.reason
            raise
        except SystemExit as error:  # HUP or TERM
            code = error.code if isinstance(error.code, int) else BUG
            raise
        finally:
            self.end = Ended(time.time(), code, why, reason)

    def ended(self) -> None:
        """Record the exit code, and the reason if there is one."""
        if self.end is not None:
            self.note(OUTCOME, versioned.text(self.end))


@contextmanager
def opened(parent: str, job: str, keep: bool, last: str = "", number: str = "") -> Iterator[Records]:
    """Make the launch's directory under `parent`, and remove it at the end unless `keep`. It becomes `last`, if that is
    named, in the place of the one of an earlier launch. Else the reason of a failure is noted under the `number` of the
    scheduler's job. Raises UsageError if it cannot be made or written (permissions, a full disk)."""
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
        with records.ending():
            yield records
    finally:
        records.close()
        with held():
            if keep or last:
                records.ended()
            with suppress(OSError):  # a read-only file system must not hide the exit code
                (path / OWNER).unlink(missing_ok=True)
            if last:
                _replace(Path(last), path, keep)
            elif number and records.end is not None and records.end.code and records.end.why:
                archive.note_end(Path.home(), number, records.end)
            if not keep:
                shutil.rmtree(path, ignore_errors=True)


def _replace(last: Path, path: Path, keep: bool) -> None:
    """Put the directory of a launch in the place of that of an earlier one. `keep` leaves it where it is, too."""
    beside, old = last.with_name(f".{path.name}.new"), last.with_name(f".{path.name}.old")
    with suppress(OSError):
        if keep:
            shutil.copytree(path, beside)
        else:
            path.rename(beside)
        with suppress(FileNotFoundError):
            last.rename(old)
        beside.rename(last)
    for rest in (beside, old):
        shutil.rmtree(rest, ignore_errors=True)


@contextmanager
def reported(clock: Clock, plan: Plan, screen: Screen, records: Records) -> Iterator[None]:
    """Enclose a launch and what is told of its end. After it, write the file of --timeline. Raises UsageError before
    the launch if that file cannot be written."""
    records.clock = clock
    path = plan.spec.timeline
    if path:
        _write(path, "")
    try:
        with records.ending():
            yield
    finally:
        try:
            if path and records.times is not None:
                from mnrun.jobs import about

                told = next((about.of_run(launch, records.end) for launch in launches.read(records.path)), None)
                _write(path, versioned.text(about.report(records.times, told)))
        except UsageError as error:  # the outcome of the launch counts for more
            screen.warn(str(error))


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--timeline {path}: {error.strerror}", "name a file that you can write") from None


def _clear(parent: Path) -> None:
    """Remove the directories of launches on this machine that were killed before they could do so. Note their ends."""
    for folder in launches.folders(parent):
        if launches.whereabouts(folder) == launches.GONE:
            for run in launches.read(folder):
                if is_id(run.number):
                    archive.note_end(Path.home(), run.number, run.killed)
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


def submitted(spec: JobSpec, record: Submitted, script: str = "", request: Requested | None = None) -> None:
    """Record a submitted job where the other verbs look for it, with the command and the GPUs of `spec`. A full disk
    must not lose the job. Raises UsageError if another user has made its directory."""
    command = (spec.program.script, *spec.program.command) if spec.program.script else spec.program.command
    whole = replace(record, command=command, gpus=gpu_count(spec.resources.gpus), time=time.time())
    base = Path(spec.job_dir)
    records = Records(base / record.id)
    try:
        private(records.path)
        if script:
            records.write(SCRIPT, script)
        if request is not None:
            records.write(REQUEST, versioned.text(request))
        records.write(SUBMITTED, versioned.text(whole))
    except (PermissionError, NotADirectoryError) as error:
        problem = f"its records cannot lie in {records.path}: {error.strerror}"
        raise UsageError(problem, "name a directory of your own with --job-dir") from None
    except OSError:
        pass
    archive.remember(Path.home(), base)
    archive.forget_some(base, time.time())

"""Record one start of a submitted job, and pass on the signals that its scheduler sends to the batch script.

The script of `mnrun submit` ends in `exec mnrun run --as-given`, so that mnrun becomes the script's process. A signal
that the scheduler sends to the script alone, as with --signal, arrives here and goes on to every rank.
"""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mnrun import formats, versioned
from mnrun.errors import NodeError, UsageError
from mnrun.jobs import archive, job_dir, launches, records
from mnrun.jobs.job_dir import Records
from mnrun.jobs.records import REQUEUED, Begun, Submitted
from mnrun.jobspec import JobSpec
from mnrun.schedulers.vocabulary import BatchStart
from mnrun.system import process
from mnrun.system.paths import entered, private

MOST_LOST = 5  # starts that may end without the record of a requeue, before mnrun gives the job up

FORWARDED = tuple(signal.Signals[f"SIG{name}"] for name in formats.SIGNALS)  # the signals that go on to the program
# Starts a command that these signals do not reach: a scheduler may send them to every process of the script.
start = partial(process.start, deaf=True)


@dataclass(frozen=True)
class Start:
    """A start of a job."""

    batch: BatchStart

    def owned(self, spec: JobSpec) -> bool:
        """Return whether this launch writes the records of the job around this process, and does not leave those of a
        live run. That of `mnrun submit` does, and one that has replaced the shell of a batch script (exec)."""
        return spec.as_given or (self.batch.scripted and self.is_script and not spec.hosts.local)

    @property
    def is_script(self) -> bool:
        """Return whether this process is the script: exec has replaced the script's shell by mnrun. So the scheduler's
        signals to the script arrive here."""
        return self.batch.script == str(os.getpid())


def goes_on(spec: JobSpec, start: Start) -> str:
    """Record the files of the output of a script whose shell goes on after this launch. Return the directory for what
    the launch itself leaves, or "" outside of a script."""
    if not start.batch.scripted:
        return ""
    output, error = (_file_of(start.batch.script, number) for number in (1, 2))
    _record(spec, start.batch, Submitted(id=start.batch.id, output=output, error=error))
    return os.path.join(spec.job_dir, start.batch.id, records.LAST)


def _file_of(process: str, number: int) -> str:
    """Return the file behind a descriptor of a process, as a pattern (patterns.py), or "" if it cannot be told."""
    path = os.path.realpath(f"/proc/{process}/fd/{number}")
    return "" if path.startswith("/proc/") else path.replace("%", "%%")


def with_own_folder(spec: JobSpec, start: Start) -> JobSpec:
    """Return the job with a directory of --split-output of its own for this task and this start."""
    if not spec.program.split_output or not spec.as_given:
        return spec
    again = f"start.{start.batch.restart}" if start.batch.restart else ""
    folder = os.path.join(spec.program.split_output, *filter(None, (start.batch.task, again)))
    return spec._replace(program=spec.program._replace(split_output=folder))


@contextmanager
def recorded(spec: JobSpec, start: Start) -> Iterator[Records]:
    """Record the begin, the nodes and the end of this start (Records.ending). Raises NodeError if that fails, or if too
    many starts of the job were lost."""
    folder = Path(spec.job_dir) / start.batch.id
    start_records = Records(folder / str(start.batch.restart))
    try:
        job_dir.make_base(folder.parent)
        private(folder)
        with entered(folder):
            private(start_records.path)
        with entered(start_records.path) as place:
            # These are of another job with this id, or of the script's line before.
            for old in (records.OUTCOME, records.TIMELINE):
                with suppress(FileNotFoundError):
                    os.unlink(old, dir_fd=place)
        start_records.write(launches.OWNER, launches.mark())
        start_records.write(records.BEGUN, versioned.text(_begun(spec, start.batch)))
    except OSError as error:
        problem = f"cannot write to the job directory {error.filename or start_records.path}: {error.strerror}"
        raise NodeError(problem, "name another with --job-dir") from None
    except UsageError as error:
        raise NodeError(error.message, error.remedy) from None
    _record(spec, start.batch, Submitted(id=start.batch.array))
    try:
        with start_records.ending():
            if spec.as_given:
                _refuse_more(folder, start.batch.restart)
            yield start_records
    finally:
        start_records.close()
        start_records.ended()
        with suppress(OSError):
            os.utime(folder)  # archive.read looks at its time


def _begun(spec: JobSpec, start: BatchStart) -> Begun:
    return Begun(
        time=time.time(),
        nodes=start.nodelist,
        head=start.head or platform.node(),
        output=os.path.realpath("/proc/self/fd/1"),
        error=os.path.realpath("/proc/self/fd/2"),
        split_output=spec.program.split_output,
        label=spec.program.label,
    )


def _record(spec: JobSpec, start: BatchStart, request: Submitted) -> None:
    """Record a job that the user handed in by hand as `mnrun submit` records its own."""
    if (Path(spec.job_dir) / request.id / records.SUBMITTED).exists():
        return
    known = replace(request, name=start.name, cluster=start.cluster, nodes=start.nodes, own=not spec.as_given)
    with suppress(UsageError):  # another user's directory, which the launch itself refuses if it needs it
        job_dir.submitted(spec, known)


def _refuse_more(folder: Path, restart: int) -> None:
    """Raise NodeError if the job was lost too often, since its scheduler would start it again and again."""
    lost = 0
    for number in range(restart):
        before = folder / str(number)
        ended = archive.outcome(before)
        if ended is not None and ended.why == REQUEUED:
            continue
        lost += before.is_dir()
    if lost > MOST_LOST:
        raise NodeError(f"this is start number {restart + 1}: something ends this job again and again")

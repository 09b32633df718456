"""One start of a submitted job: its records, and the signals that Slurm sends to its batch script.

The script of `mnrun submit` ends in `exec mnrun run --as-given`, so that mnrun becomes the script's process. A signal
that Slurm sends to the script alone, as with --signal, arrives here and goes on to every rank.
"""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mnrun.errors import BUG, LaunchError, NodeError, Requeued
from mnrun.jobs import archive, records
from mnrun.jobs.records import REQUEUED, Begun, Ended, Submitted
from mnrun.jobspec import JobSpec
from mnrun.model import Outcome
from mnrun.running.job_dir import Records
from mnrun.system import process

MOST_LOST = 5  # starts that may end without the record of a requeue, before mnrun gives the job up

# The signals that go on to the program: all names that sbatch accepts for --signal (config/layers.py).
FORWARDED = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGCONT),
)
# Starts a command that these signals do not reach: Slurm sends them to every process of the script.
start = partial(process.start, deaf=True)


@dataclass
class Start:
    """One start of a job. `id` is 123, or 123_4 for a task of an array. `restart` counts the earlier starts."""

    id: str
    restart: int
    is_script: bool  # Slurm's signals to the script reach this process
    outcome: Outcome | None = None


def current(environ: Mapping[str, str]) -> Start:
    """Return the start of the job in which this process runs."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID", ""), environ.get("SLURM_ARRAY_TASK_ID", "")
    identity = f"{array}_{task}" if array and task else environ["SLURM_JOB_ID"]
    script = environ.get("SLURM_TASK_PID", "")  # the script's shell, which exec has replaced by mnrun
    return Start(identity, int(environ.get("SLURM_RESTART_COUNT") or 0), script == str(os.getpid()))


def apart(spec: JobSpec, start: Start) -> JobSpec:
    """Return the job with a directory of --split-output of its own for this task and this start."""
    if not spec.program.split_output:
        return spec
    _, _, task = start.id.partition("_")
    again = f"start.{start.restart}" if start.restart else ""
    return replace(
        spec,
        program=replace(
            spec.program, split_output=os.path.join(spec.program.split_output, *filter(None, (task, again)))
        ),
    )


@contextmanager
def recorded(spec: JobSpec, start: Start, environ: Mapping[str, str]) -> Iterator[Records]:
    """Record the begin, the nodes and the end of this start. The end is `start.outcome`, or the error that is raised.

    Raises NodeError if the record cannot be written, or if too many starts of the job were lost.
    """
    base = Path(spec.job_dir)
    own = Records(base / start.id / str(start.restart))
    try:
        own.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        own.write(records.BEGUN, records.text(_begun(spec, environ)))
    except OSError as error:
        what = f"cannot write to the job directory {own.path}: {error.strerror}"
        raise NodeError(what, "name another with --job-dir") from None
    _remember(spec, start, environ)
    code, why = BUG, ""
    try:
        _refuse_more(base / start.id, start.restart)
        yield own
        assert start.outcome is not None
        code, why = start.outcome.code, start.outcome.why
    except LaunchError as error:
        code, why = error.code, REQUEUED if isinstance(error, Requeued) else error.message
        raise
    finally:
        own.close()
        with suppress(OSError):
            own.write(records.OUTCOME, records.text(Ended(time.time(), code, why)))


def _begun(spec: JobSpec, environ: Mapping[str, str]) -> Begun:
    return Begun(
        time=time.time(),
        nodes=environ.get("SLURM_JOB_NODELIST", ""),
        head=environ.get("SLURMD_NODENAME", platform.node()),
        output=os.path.realpath("/proc/self/fd/1"),
        error=os.path.realpath("/proc/self/fd/2"),
        split_output=spec.program.split_output,
    )


def _remember(spec: JobSpec, start: Start, environ: Mapping[str, str]) -> None:
    """Record a job that the user gave to sbatch by hand as `mnrun submit` records its own."""
    array = start.id.partition("_")[0]
    folder = Records(Path(spec.job_dir) / array)
    if (folder.path / records.SUBMITTED).exists():
        return
    count = environ.get("SLURM_JOB_NUM_NODES", "")
    asked = Submitted(
        id=array,
        name=environ.get("SLURM_JOB_NAME", ""),
        cluster=environ.get("SLURM_CLUSTER_NAME", ""),
        nodes=int(count) if count.isdecimal() else 0,
        command=spec.program.command,
        time=time.time(),
    )
    with suppress(OSError):
        folder.path.mkdir(mode=0o700, exist_ok=True)
        folder.write(records.SUBMITTED, records.text(asked))
    archive.remember(Path.home(), Path(spec.job_dir))


def _refuse_more(place: Path, restart: int) -> None:
    """Raise NodeError if the job was lost too often, since Slurm would start it again and again."""
    lost = 0
    for number in range(restart):
        before = place / str(number)
        with suppress(OSError):
            text = (before / records.OUTCOME).read_text(encoding="utf-8", errors="replace")
            ended = records.outcome(text)
            if ended is not None and ended.why == REQUEUED:
                continue
        lost += before.is_dir()
    if lost > MOST_LOST:
        raise NodeError(f"this is start number {restart + 1}: something ends this job again and again")

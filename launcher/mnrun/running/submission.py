"""Write a job as a batch script, and hand it to the scheduler."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mnrun import environment
from mnrun.errors import Impossible, UsageError
from mnrun.jobs import job_dir
from mnrun.jobs.records import Submitted
from mnrun.jobspec import JobSpec
from mnrun.model import Fault, job_name
from mnrun.planning import layout, plan, script
from mnrun.running import outputs, session
from mnrun.schedulers import BatchScheduler, at_hand
from mnrun.schedulers.queue import Queue, array_size

# `python -m` would look for modules in the job's working directory first, where another user may be able to write.
# Python has -P since 3.11. PYTHONPATH stays, since mnrun may be found by it.
_ENTRY = "import sys; sys.path[:] = filter(None, sys.path); from mnrun.__main__ import entry; entry()"


@dataclass(frozen=True)
class Submission:
    """A job, its scheduler, and the text of its batch script."""

    spec: JobSpec
    scheduler: BatchScheduler
    script: str


def make(command: tuple[str, ...], given: dict[str, Any]) -> Submission:
    """Return the batch script of a job. Change and ask nothing. Raises LaunchError."""
    spec = layout.share_gpus(session.spec_of(command, given, batch=True))
    if spec.hosts.names:
        words = [word for word in _typed() if word not in ("submit", "--wait", "--dry-run")]
        raise Impossible(
            "a job with --hosts cannot be submitted, since there is no scheduler",
            f"run it in tmux: tmux new -d {shlex.quote(shlex.join(['mnrun', *words]))}",
        )
    if spec.hosts.local:
        raise Impossible("a job with --local cannot be submitted", "leave out --local, or use mnrun run")
    files = {f"--{option}": spec.batch.text(option) for option in ("output", "error")}
    outputs.refuse_apart(files, "tn")  # %N is one file, named after the first node
    ranks = layout.lay_out(spec, None)
    paper = plan.make(spec, script.on_paper(ranks), "JOB")
    scheduler = at_hand(os.environ)
    source = f" on {time.strftime('%Y-%m-%d')} by: {_caller()}"
    call = (spec.batch.mnrun,) if spec.batch.mnrun else own_call()
    gpus = str(layout.gpus(spec.resources, ranks) or "")
    text = script.write(paper, scheduler, call, source)
    resources = replace(spec.resources, nodes=None if ranks.open else ranks.nnodes, gpus=gpus)
    return Submission(replace(spec, resources=resources), scheduler, text)


def _caller() -> str:
    """Return the command line of this mnrun, or the program that uses mnrun.Job."""
    program = os.path.basename(sys.argv[0])
    return shlex.join(["mnrun", *_typed()]) if program in ("mnrun", "__main__.py") else f"mnrun.Job in {program}"


def _typed() -> list[str]:
    return environment.masked(sys.argv[1:])


def own_call() -> tuple[str, ...]:
    """Return the words that start this mnrun again: its program, or Python for `python -m mnrun` and mnrun.Job."""
    typed = shutil.which(sys.argv[0]) or sys.argv[0]
    if os.path.basename(typed) != "mnrun":
        return (sys.executable, "-c", _ENTRY)
    return (os.path.abspath(typed),)


def hand_in(submission: Submission) -> tuple[str, str]:
    """Hand the script to the scheduler. Return the job's number, and further messages. Raises LaunchError."""
    scheduler = submission.scheduler
    if not scheduler.is_here():
        remedy = f"submit where {scheduler.TITLE} is, or run here with mnrun run --local"
        raise UsageError(f"{scheduler.SUBMIT} is not on PATH", remedy)
    job_dir.writable(submission.spec.job_dir)
    session.warn_of_files(submission.spec)
    return scheduler.submit(submission.script, submission.spec, os.environ)


def doubts(submission: Submission, queue: Queue) -> list[Fault]:
    """Return reasons for which the job may wait for ever, by the nodes of the queue, or may fail."""
    return submission.scheduler.doubts(submission.spec, queue.nodes)


def output(number: str, submission: Submission) -> str:
    """Return the file of the job's output, with the names that are known before the job starts."""
    spec = submission.spec
    pattern = submission.scheduler.output(spec)
    known = {"%x": job_name(spec), "%A": number}
    if not spec.batch.text("array"):  # each task of an array has a number of its own
        known["%j"] = number
    return re.sub("%.", lambda match: known.get(match[0], match[0]), pattern)


def followed(number: str, submission: Submission) -> str:
    """Return the id by which `mnrun logs` knows the job. Of an array, it is that of the first task."""
    first = re.search(r"\d+", submission.spec.batch.text("array"))
    return f"{number}_{first[0]}" if first else number


def record(number: str, submission: Submission) -> Queue:
    """Record the submitted job for the other verbs. Return the queue, which lists it from now on.

    Raises UsageError, and cancels the job, if another user has made the directory of its records.
    """

    def absolute(path: str) -> str:
        return os.path.abspath(path) if path else ""

    spec = submission.spec
    request = Submitted(
        id=number,
        name=job_name(spec),
        cluster=submission.scheduler.start(os.environ).cluster,
        nodes=spec.resources.nodes or 0,
        output=absolute(submission.scheduler.output(spec)),
        error=absolute(spec.batch.text("error")),
        split_output=spec.program.split_output,
        tasks=array_size(spec.batch.text("array")),
    )
    queue = submission.scheduler.user_queue(os.environ, Path.home(), float(spec.slurm_poll))
    try:
        job_dir.submitted(spec, request, submission.script)
    except UsageError as error:  # the job itself would refuse to run
        queue.cancel([number], "", [])
        raise UsageError(f"job {number} was cancelled: {error.message}", error.remedy) from None
    queue.forget()
    return queue

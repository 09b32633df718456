"""A job as a batch script, and its way to the scheduler."""

from __future__ import annotations

import os
import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mnrun import environment
from mnrun.errors import Impossible, UsageError
from mnrun.jobs import archive
from mnrun.jobs.records import Submitted
from mnrun.model import JobSpec
from mnrun.planning import layout, plan, script
from mnrun.running import job_dir, session
from mnrun.schedulers.slurm import cluster, queue, steps


@dataclass(frozen=True)
class Submission:
    """A job, and the text of its batch script."""

    job: JobSpec
    script: str


def written(command: tuple[str, ...], given: dict[str, Any]) -> Submission:
    """Return the batch script of the job that is asked for. Change and ask nothing. Raises LaunchError."""
    job = layout.share_gpus(session.spec_of(command, given, batch=True))
    if job.hosts:
        words = [word for word in _typed() if word not in ("submit", "--wait", "--dry-run")]
        raise Impossible(
            "a job with --hosts cannot be submitted, since there is no scheduler",
            f"run it in tmux: tmux new -d {shlex.quote(shlex.join(['mnrun', *words]))}",
        )
    if job.local:
        raise Impossible("a job with --local cannot be submitted", "leave out --local, or use mnrun run")
    laid = layout.lay_out(job, None)
    made = plan.make(job, script.on_paper(laid), "JOB")
    source = f" on {time.strftime('%Y-%m-%d')} by: {shlex.join(['mnrun', *_typed()])}"
    call = (job.mnrun,) if job.mnrun else session.own_call()
    asked = str(layout.gpus(job, laid) or "")
    return Submission(replace(job, nodes=laid.nnodes, gpus=asked), script.write(made, call, source))


def _typed() -> list[str]:
    return environment.masked(sys.argv[1:])


def hand_in(made: Submission) -> tuple[str, str]:
    """Hand the script to sbatch. Return the job's number, and sbatch's other messages. Raises LaunchError."""
    if not cluster.has_slurm():
        raise UsageError("sbatch is not on PATH", "submit where Slurm is, or run here with mnrun run --local")
    if "wait" in made.job.slurm:
        raise UsageError("--slurm wait would keep the job's id back until the job ends", "write mnrun submit --wait")
    cluster.refuse_gpus(made.job, cluster.version())
    job_dir.writable(made.job.job_dir)
    return cluster.submit(made.script, made.job, os.environ)


def remember(number: str, made: Submission) -> queue.Queue:
    """Record the submitted job for the other verbs. Return the queue, which lists it from now on."""
    job = made.job
    job_dir.submitted(job.job_dir, _record(number, job), made.script)
    archive.remember(Path.home(), Path(job.job_dir))
    mine = queue.Queue(os.environ, Path.home(), float(job.slurm_poll))
    mine.forget()
    return mine


def _record(number: str, job: JobSpec) -> Submitted:
    def absolute(path: str) -> str:
        return os.path.abspath(path) if path else ""

    return Submitted(
        id=number,
        name=steps.job_name(job),
        cluster=os.environ.get("SLURM_CLUSTER_NAME", ""),
        nodes=job.nodes or 0,
        gpus=int(job.gpus or 0),
        command=(job.script, *job.command) if job.script else job.command,
        time=time.time(),
        output=absolute(job.output or steps.OUTPUT),
        error=absolute(job.error),
        split_output=job.split_output,
    )

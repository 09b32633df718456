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
from mnrun.errors import Impossible, NoAnswerError, SchedulerError, UsageError
from mnrun.jobs import archive
from mnrun.jobs.records import Submitted
from mnrun.model import JobSpec, Site
from mnrun.planning import layout, plan, script
from mnrun.running import job_dir, probe, session
from mnrun.schedulers.slurm import cluster, queue, steps


@dataclass(frozen=True)
class Submission:
    """A job, its batch script, and the directory in which the script expects its files."""

    job: JobSpec
    script: script.Script
    stage: str


def written(command: tuple[str, ...], given: dict[str, Any]) -> Submission:
    """Write the batch script of the job that is asked for; nothing is changed. Raises LaunchError."""
    job = layout.share_gpus(session.spec_of(command, given, batch=True))
    if job.hosts:
        typed = [word for word in environment.masked(sys.argv[1:]) if word not in ("submit", "--wait", "--dry-run")]
        words = shlex.join(["mnrun", *typed])
        raise Impossible(
            "there is no scheduler to hand --hosts in to",
            f"detach it yourself: tmux new -d {shlex.quote(words)}",
        )
    if job.local:
        raise Impossible("--local runs on this machine, now", "leave it out to submit, or use mnrun run")
    if not cluster.has_slurm():
        raise UsageError("sbatch is not on PATH", "submit where Slurm is, or run here with mnrun run --local")
    site = cluster.on_paper(os.environ, script.SLURM_JOB)
    cluster.refuse_gpus(job, site.slurm)
    job, _ = probe.judged(probe.Asker(job, None, Site("slurm", script.SLURM_JOB), os.environ, None))
    laid = layout.lay_out(job, None)
    made = plan.make(plan.on_paper(job), script.on_paper(laid), script.JOB)
    where = steps.on_paper(site, job, laid)
    stage = os.path.join(job.job_dir, "stage", f"{time.strftime('%Y%m%d-%H%M%S')}-{session.token()}")
    source = f" from {os.path.normpath(os.path.join(session.cwd(), job.job_file))}" if job.job_file else ""
    asked = str(layout.gpus(job, laid) or "")
    return Submission(replace(job, nodes=laid.nnodes, gpus=asked), script.write(made, where, stage, source), stage)


def hand_in(made: Submission) -> tuple[str, str]:
    """Hand the script to sbatch; return the job's number, and what sbatch said beside it. Raises LaunchError."""
    if "wait" in made.job.slurm:
        raise UsageError("--slurm wait would have sbatch wait, without the job's id", "write mnrun submit --wait")
    path = job_dir.stage(made.stage, {"script": made.script.text, **made.script.stage})
    try:
        return cluster.submit(path, made.job, os.environ)
    except SchedulerError as error:
        if not isinstance(error, NoAnswerError):  # else the job, if it comes, finds what it needs
            job_dir.discard(made.stage)
        raise


def remember(number: str, made: Submission) -> queue.Queue:
    """Record the job that was handed in, so that the other verbs know it; return the queue that knows it too."""
    job = made.job
    job_dir.submitted(job.job_dir, _record(number, job, made.stage), made.script.text)
    archive.remember(Path.home(), Path(job.job_dir))
    mine = queue.Queue(os.environ, Path.home(), float(job.slurm_poll))
    mine.forget()
    return mine


def _record(number: str, job: JobSpec, stage: str) -> Submitted:
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
        stage=stage,
    )

"""`mnrun submit`: the job as a batch script, handed in."""

from __future__ import annotations

import os
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from . import cli, environment, job_dir, layout, script
from . import plan as planner
from .errors import Impossible, NoAnswerError, SchedulerError, UsageError
from .model import JobSpec, Site
from .progress import Screen
from .records import Submitted
from .schedulers import slurm


def written(command: tuple[str, ...], given: dict[str, Any]) -> tuple[JobSpec, script.Script, str]:
    """The job that is asked for, its script, and the stage in which the script expects its files."""
    from . import asking, cluster

    job = layout.share_gpus(cli.spec_of(command, given, batch=True))
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
    job, _ = asking.judged(asking.Asker(job, None, Site("slurm", script.SLURM_JOB), os.environ, None))
    laid = layout.lay_out(job, None)
    made = planner.make(planner.on_paper(job), script.on_paper(laid), script.JOB)
    where = slurm.on_paper(site, job, laid)
    stage = os.path.join(job.job_dir, "stage", f"{time.strftime('%Y%m%d-%H%M%S')}-{cli.token()}")
    source = f" from {os.path.normpath(os.path.join(cli.cwd(), job.job_file))}" if job.job_file else ""
    asked = str(layout.gpus(job, laid) or "")
    return replace(job, nodes=laid.nnodes, gpus=asked), script.write(made, where, stage, source), stage


def _record(number: str, job: JobSpec, stage: str) -> Submitted:
    def absolute(path: str) -> str:
        return os.path.abspath(path) if path else ""

    return Submitted(
        id=number,
        name=slurm.job_name(job),
        cluster=os.environ.get("SLURM_CLUSTER_NAME", ""),
        nodes=job.nodes or 0,
        gpus=int(job.gpus or 0),
        command=(job.script, *job.command) if job.script else job.command,
        time=time.time(),
        output=absolute(job.output or slurm.OUTPUT),
        error=absolute(job.error),
        split_output=job.split_output,
        stage=stage,
    )


@click.command(cls=cli.JobVerb, context_settings=cli.COMMAND)
@click.option("--dry-run", is_flag=True, help="Print the script, and hand nothing in.")
@click.option("--wait", is_flag=True, help="Leave when the job ends, with its exit code.")
@cli.job_options
def submit(command: tuple[str, ...], dry_run: bool, wait: bool, **given: Any) -> None:
    """Hand the job in as a batch script; prints its id."""
    from . import archive, cluster, queue

    job, made, stage = written(command, given)
    if dry_run:
        click.echo(made.text, nl=False)
        return
    if "wait" in job.slurm:
        raise UsageError("--slurm wait would have sbatch wait, without the job's id", "write mnrun submit --wait")
    path = job_dir.stage(stage, {"script": made.text, **made.stage})
    try:
        number, said = cluster.submit(path, job, os.environ)
    except SchedulerError as error:
        if not isinstance(error, NoAnswerError):  # else the job, if it comes, finds what it needs
            job_dir.discard(stage)
        raise
    click.echo(number)  # first of all: whatever fails from here on, the job is handed in
    for line in said.splitlines():
        Screen().say(line)
    job_dir.submitted(job.job_dir, _record(number, job, stage), made.text)
    archive.remember(Path.home(), Path(job.job_dir))
    mine = queue.Queue(os.environ, Path.home(), float(job.slurm_poll))
    mine.forget()
    if wait:
        from . import waiting

        sys.exit(waiting.wait((number,), [Path(job.job_dir)], mine))

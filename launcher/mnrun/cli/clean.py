"""`mnrun clean`: its options. work/clean.py does its work."""

from __future__ import annotations

from typing import Any

import click

from mnrun.cli.jobs import CONTEXT, job_dir_option


@click.command(context_settings=CONTEXT)
@click.option("--older", metavar="TIME", help="Time since the end of the job: 30d, 12h or 4w.  [default: 30d]")
@click.option("--images", is_flag=True, help="Remove converted images that no job has used for so long.")
@click.option(
    "--nodes", is_flag=True, help="Remove the directories of killed jobs, on the nodes of this job, or else here."
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@job_dir_option
@click.option("--image-cache", metavar="DIR", help="Directory of the images.  [default: ~/.mnrun/cache]")
def clean(**given: Any) -> None:
    """Remove mnrun's records of old jobs. The output of the jobs stays."""
    from mnrun.cli.work import clean as work

    work.clean(**given)

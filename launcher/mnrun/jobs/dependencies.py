"""Judge in a job how those have ended that it waited for, where its scheduler knows only that they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mnrun import formats
from mnrun.errors import SchedulerError
from mnrun.jobs import archive, asking, state
from mnrun.schedulers import common
from mnrun.schedulers.queue import Queue


def refuse(environ: Mapping[str, str], bases: Sequence[Path], queue: Queue) -> None:
    """Raise SchedulerError if a job has not ended as this one asked: afterok with 0, and afternotok otherwise."""
    text = environ.get(common.AFTER, "").replace("+", ",")
    for kind, jobs in formats.dependencies(text):
        for job in jobs if kind in ("afterok", "afternotok") else ():
            views, _, _ = asking.views([job], archive.read(bases, [job]), lambda: queue)
            well = bool(views) and all(view.code == 0 for view in views)
            if well != (kind == "afterok"):
                how = (
                    "; ".join(state.line(view.id, view.state, view.code, view.why) for view in views)
                    or f"nobody knows the end of job {job}"
                )
                raise SchedulerError(f"--dependency {kind}:{job} is not met: {how}", f"see mnrun why {job}")

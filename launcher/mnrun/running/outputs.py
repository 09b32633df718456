"""The files for a live run's output, by --output and --error: one file of all ranks, as with srun.

The names are Slurm's patterns (sbatch(1), FILENAME PATTERN).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from mnrun.errors import Impossible, UsageError
from mnrun.jobs.records import NO_ARRAY
from mnrun.model import JobSpec, Plan, Site
from mnrun.schedulers import SCHEDULERS
from mnrun.schedulers.slurm.steps import job_name
from mnrun.system.process import Starter, start

_APART = {"t": "rank", "n": "node", "N": "node", "s": "step"}


@contextmanager
def opened(plan: Plan, site: Site, environ: Mapping[str, str], starter: Starter | None) -> Iterator[Starter | None]:
    """Yield a starter whose programs write to the files. Without --output and --error, it is `starter` itself.

    Raises UsageError if a file cannot be written, and Impossible if the pattern asks for several files.
    """
    spec = plan.spec
    paths = [name(flag, asked, plan, site, environ) for flag, asked in asked_here(spec).items()]
    if not any(paths):
        yield starter
        return
    out, err = paths
    files = {path: _open(path) for path in dict.fromkeys(filter(None, paths))}
    try:
        # srun(1), --error: without it, errors go to the file of --output
        yield partial(starter or start, output=(files.get(out), files.get(err or out)))
    finally:
        for file in files.values():
            os.close(file)


def asked_here(spec: JobSpec) -> dict[str, str]:
    """Return --output and --error as given for a live run. The values of a job file or a site are for batch jobs."""

    def here(option: str) -> bool:
        return not spec.shell and spec.origins.get(option) in ("command line", f"MNRUN_{option.upper()}")

    return {f"--{o}": str(getattr(spec, o)) if here(o) else "" for o in ("output", "error")}


def name(flag: str, pattern: str, plan: Plan, site: Site, environ: Mapping[str, str]) -> str:
    """Return the file that `pattern` names in this job, or "" if it names none."""
    if pattern in ("", "none"):
        return os.devnull if pattern else ""
    if "\\" in pattern:  # a backslash turns all patterns off (sbatch(1), FILENAME PATTERN)
        return pattern.replace("\\", "")
    job = site.job if SCHEDULERS[site.scheduler].NUMBERS else plan.job
    values = {
        "j": job,
        "J": job,
        "A": environ.get("SLURM_ARRAY_JOB_ID", job),
        "a": environ.get("SLURM_ARRAY_TASK_ID", NO_ARRAY),
        "x": plan.spec.job_name or environ.get("SLURM_JOB_NAME") or job_name(plan.spec),
        "u": environ.get("USER") or str(os.getuid()),
        "%": "%",
    }

    def filled(match: re.Match[str]) -> str:
        width, letter = match[1], match[2]
        if letter in _APART:
            what = f"{flag} {pattern}: a file for each {_APART[letter]}"
            raise Impossible(what, "mnrun writes one file for all ranks; --split-output DIR writes one for each")
        value = values.get(letter, match[0])
        return value.zfill(min(int(width or 0), 10)) if value.isdecimal() else value

    return re.sub(r"%(\d*)(.)", filled, pattern)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}", "name another with --output or --error") from None

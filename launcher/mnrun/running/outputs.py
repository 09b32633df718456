"""The files that a live run's program writes to, by --output and --error, as srun's for one file of all ranks.

Names are Slurm's patterns (sbatch(1), FILENAME PATTERN).
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
from mnrun.schedulers.slurm.steps import job_name
from mnrun.system.process import Starter, start

_APART = {"t": "rank", "n": "node", "N": "node", "s": "step"}


@contextmanager
def opened(plan: Plan, site: Site, environ: Mapping[str, str], starter: Starter | None) -> Iterator[Starter | None]:
    """What starts the program so that it writes there: `starter`, as it is, where nothing is asked for.

    Raises UsageError where a file cannot be written, and Impossible where one is not enough.
    """
    spec = plan.spec
    paths = [name(flag, asked, plan, site, environ) for flag, asked in asked_here(spec).items()]
    if not any(paths):
        yield starter
        return
    out, err = paths
    files = {path: _open(path) for path in dict.fromkeys(filter(None, paths))}
    try:
        # srun's: without a file of their own, errors go where the output goes
        yield partial(starter or start, output=(files.get(out), files.get(err or out)))
    finally:
        for file in files.values():
            os.close(file)


def asked_here(spec: JobSpec) -> dict[str, str]:
    """--output and --error as they were given for a live run; a job file's, or a site's, are the batch job's."""

    def here(option: str) -> bool:
        return not spec.shell and spec.origins.get(option) in ("command line", f"MNRUN_{option.upper()}")

    return {f"--{o}": str(getattr(spec, o)) if here(o) else "" for o in ("output", "error")}


def name(flag: str, pattern: str, plan: Plan, site: Site, environ: Mapping[str, str]) -> str:
    """The file that `pattern` names in this job; "" where it names none."""
    if pattern in ("", "none"):
        return os.devnull if pattern else ""
    if "\\" in pattern:  # Slurm's way to say that nothing in it is a pattern
        return pattern.replace("\\", "")
    job = site.job if site.scheduler == "slurm" else plan.job
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
            raise Impossible(what, "mnrun writes one of all ranks; files of each rank's own are --split-output DIR")
        value = values.get(letter, match[0])
        return value.zfill(min(int(width or 0), 10)) if value.isdecimal() else value

    return re.sub(r"%(\d*)(.)", filled, pattern)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}", "name another with --output or --error") from None

"""Open the files for a live run's output, by --output and --error: one file of all ranks, as with srun.

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
from mnrun.jobspec import JobSpec, Layer
from mnrun.model import Plan, Site, job_name
from mnrun.schedulers import SCHEDULERS, at_hand
from mnrun.system.process import Starter, start

_APART = {"t": "rank", "n": "node", "N": "node", "s": "step"}


@contextmanager
def opened(plan: Plan, site: Site, environ: Mapping[str, str], starter: Starter | None) -> Iterator[Starter | None]:
    """Yield a starter whose programs write to the files. Without --output and --error, it is `starter` itself.

    Raises UsageError if a file cannot be written, and Impossible if the pattern asks for several files.
    """
    spec = plan.spec
    paths = [name(flag, pattern, plan, site, environ) for flag, pattern in live_files(spec).items()]
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


def live_files(spec: JobSpec) -> dict[str, str]:
    """Return --output and --error as given for a live run. The values of a job file or a site are for batch jobs."""

    def here(option: str) -> bool:
        origin = spec.origins.get(option)
        live = {Layer.COMMAND_LINE, Layer.VARIABLE}
        return not spec.program.shell and origin is not None and bool(origin.layers & live)

    return {f"--{o}": spec.batch.text(o) if here(o) else "" for o in ("output", "error")}


def refuse_apart(patterns: Mapping[str, str], letters: str = "tnNs") -> None:
    """Raise Impossible if a pattern asks for a file for each rank, node or step, by one of `letters`."""
    for flag, pattern in patterns.items():
        for letter in re.findall(r"%\d*(.)", pattern) if "\\" not in pattern else ():
            if letter in letters:
                problem = f"{flag} {pattern}: a file for each {_APART[letter]}"
                raise Impossible(problem, "mnrun writes one file for all ranks; --split-output DIR writes one for each")


def name(flag: str, pattern: str, plan: Plan, site: Site, environ: Mapping[str, str]) -> str:
    """Return the file that `pattern` names in this job, or "" if it names none."""
    if pattern in ("", "none"):
        return os.devnull if pattern else ""
    if "\\" in pattern:  # a backslash turns all patterns off (sbatch(1), FILENAME PATTERN)
        return pattern.replace("\\", "")
    refuse_apart({flag: pattern})
    job = site.job if SCHEDULERS[site.scheduler].NUMBERS else plan.job
    start = at_hand(environ).start(environ)
    values = {
        "j": job,
        "J": job,
        "A": start.array if start.task else job,
        "a": start.task or NO_ARRAY,
        "x": plan.spec.batch.text("job_name") or start.name or job_name(plan.spec),
        "u": environ.get("USER") or str(os.getuid()),
        "%": "%",
    }

    def filled(match: re.Match[str]) -> str:
        width, letter = match[1], match[2]
        value = values.get(letter, match[0])
        return value.zfill(min(int(width or 0), 10)) if value.isdecimal() else value

    return re.sub(r"%(\d*)(.)", filled, pattern)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}", "name another with --output or --error") from None

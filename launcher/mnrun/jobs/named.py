"""Remember the containers that lines of a job have named, for its later lines: ~/.mnrun/named/JOB.NAME.

A file says how the container was made, and which launcher has made it. What programs have written into it is not kept.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from mnrun.errors import UsageError
from mnrun.jobs import launches
from mnrun.jobs.launches import LaunchRecord
from mnrun.system import paths

FOLDER = ".mnrun/named"
KEPT = 30 * 86400  # seconds


@dataclass(frozen=True)
class Named:
    """A container that a line has named."""

    container: tuple[str, ...]  # the options that have made it
    writable: bool
    mark: str  # of its launcher


def remember(home: Path, job: str, name: str, container: Sequence[str], writable: bool) -> None:
    """Remember a container of this process's launch. Files of jobs long gone are removed."""
    place = _place(home, job, name)
    paths.private(home / ".mnrun")
    place.parent.mkdir(mode=0o700, exist_ok=True)
    for old in place.parent.iterdir():
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > KEPT:
                old.unlink()
    new = place.with_name(f".{place.name}.{os.getpid()}")
    new.write_text(json.dumps(asdict(Named(tuple(container), writable, launches.mark()))), encoding="utf-8")
    new.replace(place)


def recall(home: Path, job: str, name: str) -> Named | None:
    """Return the container of this name, or None if no line of the job has named one."""
    with suppress(OSError, ValueError, TypeError):
        found = Named(**json.loads(_place(home, job, name).read_text(encoding="utf-8")))
        return Named(tuple(found.container), found.writable, found.mark)
    return None


def running(named: Named, bases: Sequence[Path]) -> LaunchRecord | None:
    """Return the launch whose container this is, or None if it has ended or is not ready."""
    return next((one for one in launches.live(bases) if launches.owner(Path(one.folder)) == named.mark), None)


def here(home: Path, job: str, bases: Sequence[Path]) -> list[tuple[str, str, int]]:
    """Return job, name and guard of the containers of a job that run on this machine."""
    found = []
    for place in sorted((home / FOLDER).glob(f"{job}.*")) if job else ():
        name = place.name.removeprefix(f"{job}.")
        known = recall(home, job, name)
        launch = running(known, bases) if known else None
        with suppress(OSError, ValueError, IndexError):
            if launch is not None:
                own = (Path(launch.node_dir) / "own").read_text(encoding="utf-8")
                found.append((job, name, int(own.split()[2])))
    return found


def _place(home: Path, job: str, name: str) -> Path:
    if not re.fullmatch(r"[\w.+-]+", name):
        raise UsageError(f"{name!r} is no name of a container", "use letters, digits and . + -")
    return home / FOLDER / f"{job}.{name}"

"""Find the launches of this user that run now, by the record that each leaves in its directory.

    <base>/<LAUNCH>/launch.json        of a live run. The file `launcher` is beside it for as long as mnrun lives
    <base>/<ID>/<RESTART>/launch.json  of a submitted job

A launch that was killed hard has left no record of its end. Its scheduler knows.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mnrun.jobs import archive, records
from mnrun.jobs.state import JobRecord

LAUNCH = "launch.json"
OWNER = "launcher"  # names host and pid while a launch is under way
_NAME = re.compile(r"([1-9]\d*|local|hosts)-[a-z2-9]{6}", re.ASCII)


@dataclass(frozen=True)
class LaunchRecord:
    """The place where a launch runs.

    `job` is mnrun's own name of it, and `number` its scheduler's. `gpus` holds node -> GPUs of the job there.
    `binds` says whether Slurm binds tasks to CPUs. `ssh_port` is 0 without one. `folder` is the record's directory, and
    `submitted` the id of a submitted job.
    """

    job: str
    scheduler: str
    number: str
    node_dir: str
    nodes: tuple[str, ...]
    gpus: Mapping[str, int] = field(default_factory=dict)
    binds: bool = True
    ssh_user: str = ""
    ssh_port: int = 0
    folder: str = ""
    submitted: str = ""

    @property
    def name(self) -> str:
        """Return the shortest name by which people know it."""
        return self.submitted or self.job

    def has(self, identity: str) -> bool:
        """Return whether a typed id means this launch."""
        return identity in (self.job, self.number, self.submitted)


def is_name(word: str) -> bool:
    """Return whether a typed word is the id of a job, or the name of a launch."""
    return records.is_id(word) or _NAME.fullmatch(word) is not None


def running(bases: Sequence[Path]) -> list[LaunchRecord]:
    """Return the launches that have left no record of an end."""
    found = [*_live(bases), *(found for record in archive.read(bases).values() for found in of_job(record))]
    by_name = {launch.job: launch for launch in found}
    return [by_name[name] for name in sorted(by_name)]


def kept(bases: Sequence[Path], identity: str) -> list[LaunchRecord]:
    """Return the live runs of this id that have ended, and whose records --keep has kept."""
    folders = sorted(path.parent for base in bases for path in base.glob(f"*/{LAUNCH}"))
    found = [launch for folder in folders if not (folder / OWNER).exists() for launch in _read(folder)]
    return [launch for launch in found if launch.has(identity)]


def of_job(record: JobRecord) -> Iterator[LaunchRecord]:
    """Yield the launch of a submitted job that has begun and not ended."""
    if record.begun is None or record.ended is not None:
        return
    for launch in _read(Path(record.folder, str(record.restart))):
        yield replace(launch, submitted=record.id)


def _live(bases: Iterable[Path]) -> Iterator[LaunchRecord]:
    for base in bases:
        for owner in base.glob(f"*/{OWNER}"):
            if _lives(owner):
                yield from _read(owner.parent)


def _lives(owner: Path) -> bool:
    """Return whether the launcher that this file names lives. A launcher on another machine counts as alive."""
    try:
        host, pid = owner.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return False
    return host != platform.node() or Path("/proc", pid).exists()


def _read(folder: Path) -> Iterator[LaunchRecord]:
    """Yield the record in a directory, if there is a whole one."""
    try:
        values: dict[str, Any] = json.loads((folder / LAUNCH).read_text(encoding="utf-8", errors="surrogateescape"))
        values.pop("version", None)
        yield LaunchRecord(**{**values, "nodes": tuple(values["nodes"]), "folder": str(folder)})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return

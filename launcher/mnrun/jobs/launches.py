"""Find the launches of this user that run now, by the record that each leaves in its directory.

    <base>/<LAUNCH>/launch.json        of a live run. The file `launcher` is beside it for as long as mnrun lives
    <base>/<ID>/<RESTART>/launch.json  of a submitted job

A launch that was killed hard has left no record of its end. Its scheduler knows.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mnrun.jobs import archive, records
from mnrun.jobs.records import JobRecord
from mnrun.system import clock

LAUNCH = "launch.json"
OWNER = "launcher"  # names host, pid and start of the launcher while a launch is under way
HERE, GONE, ELSEWHERE = "here", "gone", "elsewhere"
_NAME = re.compile(r"([1-9]\d*|local|hosts)-[a-z2-9]{6}", re.ASCII)


@dataclass(frozen=True)
class LaunchRecord:
    """The place where a launch runs.

    `job` is mnrun's own name of it, and `number` its scheduler's. `gpus` holds node -> GPUs of the job there.
    `binds` says whether Slurm binds tasks to CPUs. `ssh_port` is 0 without one. `title` is the job's name, and `begun`
    the time of the launch. `runtime` is the one of its ranks. `folder` is the record's directory, and `submitted` the
    id of a submitted job. `near` says that its launcher was seen alive on this machine.
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
    title: str = ""
    begun: float = 0
    runtime: str = ""
    folder: str = ""
    submitted: str = ""
    near: bool = False

    @property
    def away(self) -> bool:
        """Return whether it runs on another machine, which nobody can enter from here."""
        return self.scheduler == "local" and not self.near

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
    found = [*live(bases), *(found for record in archive.read(bases).values() for found in of_job(record))]
    by_name = {launch.job: launch for launch in found}
    return [by_name[name] for name in sorted(by_name)]


def kept(bases: Sequence[Path], identity: str) -> list[LaunchRecord]:
    """Return the live runs of this id that have ended, and whose records --keep has kept."""
    folders = [path.parent for base in bases for path in _each(base, LAUNCH)]
    found = [launch for folder in folders if not (folder / OWNER).exists() for launch in read(folder)]
    return [launch for launch in found if launch.has(identity)]


def of_job(record: JobRecord) -> Iterator[LaunchRecord]:
    """Yield the launch of a submitted job that has begun and not ended."""
    if record.begun is None or record.ended is not None:
        return
    for launch in read(Path(record.folder, str(record.restart))):
        yield replace(launch, submitted=record.id)


def live(bases: Iterable[Path]) -> Iterator[LaunchRecord]:
    """Yield the live runs whose launcher lives, or is on another machine."""
    for base in bases:
        for owner in _each(base, OWNER):
            if (place := whereabouts(owner)) in (HERE, ELSEWHERE):
                yield from (replace(launch, near=place == HERE) for launch in read(owner.parent))


def _each(base: Path, name: str) -> list[Path]:
    """Return the files of this name in the directories of launches. A closed `base` has none."""
    return sorted(map(Path, glob.glob(f"{glob.escape(str(base))}/*/{name}")))


def mark() -> str:
    """Return the line that names this launcher: its host, its process, and the start of that."""
    return f"{platform.node()} {os.getpid()} {clock.ticks(os.getpid())}\n"


def whereabouts(owner: Path) -> str:
    """Return where the launcher is that this file names: HERE, GONE or ELSEWHERE.

    The result is "" if the file cannot be read, or if another user could have written it.
    """
    try:
        folder = owner.parent.lstat()
        host, pid, start = owner.read_text(encoding="utf-8").split()
        if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.getuid() or folder.st_mode & 0o022:
            return ""
        if host != platform.node():
            return ELSEWHERE
        return HERE if clock.ticks(int(pid)) == int(start) > 0 else GONE
    except (OSError, ValueError):
        return ""


def read(folder: Path) -> Iterator[LaunchRecord]:
    """Yield the record in a directory, if there is a whole one."""
    try:
        values: dict[str, Any] = json.loads((folder / LAUNCH).read_text(encoding="utf-8", errors="surrogateescape"))
        values.pop("version", None)
        yield LaunchRecord(**{**values, "nodes": tuple(values["nodes"]), "folder": str(folder)})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return

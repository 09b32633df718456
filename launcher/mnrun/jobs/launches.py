"""Find the launches of this user that run now, by the record that each leaves in its directory.

    <base>/<LAUNCH>/launch.json        of a live run. The file `launcher` is beside it for as long as mnrun lives
    <base>/<ID>/<RESTART>/launch.json  of a submitted job

A launch that was killed hard has left no record of its end. Its scheduler knows.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mnrun.jobs import archive, records
from mnrun.jobs.records import JobRecord
from mnrun.system import clock
from mnrun.system.paths import content, entered

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
    id of a submitted job. `script` is the id of the job whose batch script has started it, or "". `near` says that its
    launcher was seen alive on this machine.
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
    script: str = ""
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
        return identity in (self.job, self.number, self.submitted, self.script) and identity != ""


_FIELDS = tuple(field.name for field in fields(LaunchRecord))


def is_name(word: str) -> bool:
    """Return whether a typed word is the id of a job, or the name of a launch."""
    return records.is_id(word) or _NAME.fullmatch(word) is not None


def running(bases: Sequence[Path], identity: str = "") -> list[LaunchRecord]:
    """Return the launches of this id that have left no record of an end, or all of them if it is ""."""
    runs = [launch for launch in live(bases) if not identity or launch.has(identity)]
    if identity:
        ids = [identity.partition("-")[0]]
        named = [launch for launch in _submitted(bases, ids) if launch.has(identity)]
        # The scheduler has a number of its own for a task of an array.
        found = [*runs, *named] or [launch for launch in _submitted(bases) if launch.has(identity)]
    else:
        found = [*runs, *_submitted(bases)]
    by_name = {launch.job: launch for launch in found}
    return [by_name[name] for name in sorted(by_name)]


def _submitted(bases: Sequence[Path], ids: Sequence[str] = ()) -> Iterator[LaunchRecord]:
    for record in archive.read(bases, ids).values():
        yield from of_job(record)


def kept(bases: Sequence[Path], identity: str) -> list[LaunchRecord]:
    """Return the live runs of this id that have ended, and whose records --keep has kept."""
    ended = [folder for base in bases for folder in folders(base) if not (folder / OWNER).exists()]
    return [launch for folder in ended for launch in read(folder) if launch.has(identity)]


def of_job(record: JobRecord) -> Iterator[LaunchRecord]:
    """Yield the launch of a submitted job that has begun and not ended."""
    if record.begun is None or record.ended is not None:
        return
    for launch in read(Path(record.folder, str(record.restart))):
        yield replace(launch, submitted=record.id)


def live(bases: Iterable[Path]) -> Iterator[LaunchRecord]:
    """Yield the live runs whose launcher lives, or is on another machine."""
    for base in bases:
        for folder in folders(base):
            if (place := whereabouts(folder)) in (HERE, ELSEWHERE):
                yield from (replace(launch, near=place == HERE) for launch in read(folder))


def folders(base: Path) -> list[Path]:
    """Return the directories of live runs, by their names alone. A closed `base` has none."""
    try:
        return [base / name for name in sorted(os.listdir(base)) if "-" in name]
    except OSError:
        return []


def mark(pid: int = 0) -> str:
    """Return the line that names a launcher, this one by default: process, start, and where such a number counts."""
    pid = pid or os.getpid()
    return f"{pid} {clock.ticks(pid)} {_kernel()}\n"


def _kernel() -> str:
    """Return the host, its boot and its process namespace, since a process has a number in one such namespace alone.

    Machines may share a name, such as localhost. A container may have the name of its host.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{platform.node()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{platform.node()} unknown"


def whereabouts(folder: Path) -> str:
    """Return where the launcher of a live run is: HERE, GONE or ELSEWHERE.

    The result is "" without a file that names it, or if another user could have written the file.
    """
    try:
        with entered(folder) as place:
            pid, start, kernel = content(place, OWNER).strip().split(" ", 2)
        if kernel != _kernel() or kernel.endswith(" unknown"):
            return ELSEWHERE
        return HERE if clock.ticks(int(pid)) == int(start) > 0 else GONE
    except (OSError, ValueError):
        return ""


def read(folder: Path) -> Iterator[LaunchRecord]:
    """Yield the record in a directory, if there is a whole one. A newer mnrun may have written more of it."""
    try:
        with entered(folder) as place:
            values: dict[str, Any] = json.loads(content(place, LAUNCH))
        known = {name: values[name] for name in _FIELDS if name in values}
        yield LaunchRecord(**{**known, "nodes": tuple(values["nodes"]), "folder": str(folder)})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return

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
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mnrun.jobs import archive
from mnrun.jobs.records import KILLED, Ended
from mnrun.schedulers import KNOWN, SCHEDULERS
from mnrun.schedulers.vocabulary import LETTERS, is_id, job_of
from mnrun.system import clock
from mnrun.system.paths import content, entered

LAUNCH = "launch.json"
READY = "nodes.json"
OWNER = "launcher"  # names host, pid and start of the launcher while a launch is under way
HERE, GONE, ELSEWHERE = "here", "gone", "elsewhere"
_WORDS = "|".join(name for name in SCHEDULERS if name not in KNOWN)
_NAME = re.compile(rf"(\d+|{_WORDS}|[a-z][a-z0-9-]*-[{LETTERS}]{{5}})-[a-z2-9]{{6}}", re.ASCII)


@dataclass(frozen=True)
class LaunchRecord:
    """The place where a launch runs."""

    job: str  # mnrun's own name of it
    scheduler: str
    number: str  # the scheduler's id of its job
    node_dir: str
    nodes: tuple[str, ...]
    gpus: Mapping[str, int] = field(default_factory=dict)  # node -> GPUs of the job there
    binds: bool = True  # whether the scheduler binds tasks to CPUs
    ssh_user: str = ""
    ssh_port: int = 0  # 0 without one
    title: str = ""  # the job's name
    begun: float = 0  # time of the launch
    runtime: str = ""  # of its ranks
    folder: str = ""  # the record's directory
    submitted: str = ""  # id of a submitted job
    script: str = ""  # id of the job whose batch script has started it
    beside: str = ""  # the running job beside whose ranks it is, for a service
    image: str = ""  # of its ranks
    command: tuple[str, ...] = ()
    mode: str = ""  # inside-out or outside-in
    starter: str = ""  # of its ranks
    asked: float = 0  # time at which mnrun was asked for it
    own: bool = False  # whether mnrun has got the job for it, and returns it at the end
    near: bool = False  # whether its launcher was seen alive on this machine

    @property
    def away(self) -> bool:
        """Return whether it runs on another machine, which nobody can enter from here."""
        return self.scheduler == "local" and not self.near

    @property
    def name(self) -> str:
        return self.submitted or self.job

    @property
    def own_job(self) -> str:
        """Return the id of the job that mnrun has got for it, or "" for a launch in a job of the user's."""
        return self.number if self.own else ""

    @property
    def killed(self) -> Ended:
        """Return its end, of which a launcher that was killed hard has left no record."""
        return Ended(self.begun, 128 + signal.SIGKILL, KILLED)

    def has(self, identity: str) -> bool:
        return identity in (self.job, self.number, self.submitted, self.script) and identity != ""


def is_name(word: str) -> bool:
    return is_id(word) or _NAME.fullmatch(word) is not None


def running(bases: Sequence[Path], identity: str = "") -> list[LaunchRecord]:
    """Return the launches of this id that have left no record of an end, or all of them if it is ""."""
    if not identity:
        found = [*live(bases), *_submitted(bases)]
    else:
        known = [*live(bases), *_submitted(bases, [job_of(identity)])]
        found = [launch for launch in known if launch.has(identity)]
        # The scheduler has a number of its own for a task of an array.
        found = found or [launch for launch in _submitted(bases) if launch.has(identity)]
    by_name = {launch.job: launch for launch in found}
    return [by_name[name] for name in sorted(by_name)]


def _submitted(bases: Sequence[Path], ids: Sequence[str] = ()) -> Iterator[LaunchRecord]:
    """Yield the launches of submitted jobs that have begun and not ended."""
    for record in archive.read(bases, ids).values():
        if record.begun is not None and record.ended is None:
            name = record.submitted.name if record.submitted is not None else ""
            for launch in read(archive.last_start(record)):
                yield replace(launch, submitted=record.id, title=name or launch.title)


def kept(bases: Sequence[Path], identity: str = "") -> list[LaunchRecord]:
    """Return the live runs of this id, or all of them, that have ended, and whose records --keep has kept."""
    ended = [folder for base in bases for folder in folders(base) if not (folder / OWNER).exists()]
    return [launch for folder in ended for launch in read(folder) if not identity or launch.has(identity)]


def live(bases: Iterable[Path]) -> Iterator[LaunchRecord]:
    """Yield the live runs whose launcher lives, or is on another machine."""
    for base in bases:
        for folder in folders(base):
            if (place := whereabouts(folder)) in (HERE, ELSEWHERE):
                yield from (replace(launch, near=place == HERE) for launch in read(folder))


def under_way(bases: Iterable[Path], job: str) -> bool:
    """Return whether a live run of this job's batch script is under way."""
    return any(launch.has(job) for launch in live(bases))


def killed(bases: Iterable[Path]) -> Iterator[LaunchRecord]:
    """Yield the live runs whose launcher was killed on this machine. It has left their records."""
    for base in bases:
        for folder in folders(base):
            if whereabouts(folder) == GONE:
                yield from read(folder)


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
    """Return the host, its boot and its process namespace: a process has a number in one namespace alone. Machines may
    share a name, such as localhost, and a container may have that of its host."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{platform.node()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{platform.node()} unknown"


def whereabouts(folder: Path) -> str:
    """Return HERE, GONE or ELSEWHERE for the launcher of a live run, or "" without a file that names it and is the
    user's."""
    try:
        with entered(folder) as place:
            pid, start, kernel = content(place, OWNER).strip().split(" ", 2)
        if kernel != _kernel() or kernel.endswith(" unknown"):
            return ELSEWHERE
        return HERE if clock.ticks(int(pid)) == int(start) > 0 else GONE
    except (OSError, ValueError):
        return ""


def owner(folder: Path) -> str:
    """Return the line that names the launcher of a live run (`mark`), or ""."""
    with suppress(OSError, ValueError), entered(folder) as place:
        return content(place, OWNER)
    return ""


def launcher(folder: Path) -> tuple[str, str]:
    """Return the process number of a launcher and its host, or ("", "") without the file that names it."""
    with suppress(OSError, ValueError), entered(folder) as place:
        pid, _, host, _ = content(place, OWNER).split(" ", 3)
        return pid, host
    return "", ""


def read(folder: Path) -> Iterator[LaunchRecord]:
    """Yield the record in a directory, if there is a whole one. A newer mnrun may have written more of it."""
    try:
        with entered(folder) as place:
            values: dict[str, Any] = json.loads(content(place, LAUNCH))
        known = {field.name: values[field.name] for field in fields(LaunchRecord) if field.name in values}
        lists = {"nodes": tuple(values["nodes"]), "command": tuple(values.get("command", ()))}
        yield LaunchRecord(**{**known, **lists, "folder": str(folder)})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return

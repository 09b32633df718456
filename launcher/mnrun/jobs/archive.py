"""Find, read and remove the directories of submitted jobs. records.py knows their content."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Callable, TypeVar

from mnrun.errors import UsageError
from mnrun.jobs import records
from mnrun.jobs.records import Ended, JobRecord, Requested, Submitted
from mnrun.schedulers.vocabulary import JobId, is_id
from mnrun.system.paths import content, entered

T = TypeVar("T")

OLD = 90 * 86400.0  # seconds, after which the records of an ended job go by themselves
SAMPLE = 20  # records that are looked at for that, whenever one is added
ENDS, MOST_ENDS = "ends", 200  # in ~/.mnrun: why live runs have failed, a line each
PLACES = "places"  # in ~/.mnrun: the directories of jobs beside the usual one, a line each


def usual(home: Path) -> Path:
    return home / ".mnrun" / "jobs"


def remember(home: Path, base: Path) -> None:
    """Write down that jobs of this user lie in `base`. Later commands then find them without --job-dir."""
    if base in (usual(home), *directories(home)):
        return
    with suppress(OSError):
        usual(home).parent.mkdir(mode=0o700, exist_ok=True)
        with open(usual(home).parent / PLACES, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{base}\n")


def directories(home: Path) -> list[Path]:
    try:
        text = (usual(home).parent / PLACES).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    return [Path(line) for line in text.split("\n") if line.startswith("/")]


def note_end(home: Path, job: str, end: Ended) -> None:
    """Write down why a live run in this job of its scheduler's has failed. It leaves no other record."""
    path = usual(home).parent / ENDS
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        lines = _end_lines(home)[1 - MOST_ENDS :]
        beside = path.with_name(f".{ENDS}.{os.getpid()}")
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write("\n".join([*lines, records.end_line(job, end), ""]))
        beside.replace(path)


def live_ends(home: Path) -> dict[str, Ended]:
    """Return the scheduler's id -> the end of the last live run in this job that has failed."""
    return dict(filter(None, map(records.live_end, _end_lines(home))))


def _end_lines(home: Path) -> list[str]:
    try:
        return (usual(home).parent / ENDS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def read(bases: Iterable[Path], ids: Iterable[str] = (), since: float = 0) -> dict[str, JobRecord]:
    """Return id -> record of these jobs and of the tasks of these arrays, which have the request of their array.
    Without `ids`, these are all whose directory has changed after `since`: it does as a job is handed in, begins and
    ends."""
    names = set(ids)
    result: dict[str, JobRecord] = {}
    requests: dict[Path, Submitted | None] = {}
    for base in bases:
        selection = _named(base, names, since)
        job_records = (_job_record(base / name) for name in sorted(set(selection) - set(result)))
        for record in filter(None, job_records):
            array = base / record.array
            if record.submitted is None and array not in requests:
                requests[array] = request(array)
            result[record.id] = record._replace(submitted=record.submitted or requests[array])
    return result


def _named(base: Path, names: Collection[str], since: float) -> list[str]:
    """Return the names of directories of jobs in `base`. Without `since`, they are not looked at."""
    try:
        with os.scandir(base) as entries:
            jobs = [entry for entry in entries if is_id(entry.name)]
    except OSError:
        return []
    if names:
        return [job.name for job in jobs if job.name in names or JobId.of(job.name).number in names]
    return [job.name for job in jobs if not since or _write_time(Path(job.path)) > since]


def _job_record(path: Path) -> JobRecord | None:
    try:
        with entered(path) as place:
            names = os.listdir(place)
    except OSError:
        return None
    starts = records.restarts(names)
    asked = _record(path, records.SUBMITTED, records.submitted)
    if not starts:
        launched = outcome(path / records.LAST) if records.LAST in names else None
        return JobRecord(path.name, asked, folder=str(path), launched=launched) if asked is not None else None
    last = path / str(starts[-1])
    begun, ended = _record(last, records.BEGUN, records.begun), outcome(last)
    touched = max(_write_time(last), _write_time(last / records.LOG)) if ended is None else 0
    return JobRecord(path.name, asked, starts[-1], begun, ended, touched, str(path))


def changed(bases: Iterable[Path]) -> float:
    """Return when a job or a live run last came to one of these directories, or left it."""
    return max(map(_write_time, bases), default=0.0)


def _write_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0


def _record(folder: Path, name: str, parse: Callable[[str], T | None]) -> T | None:
    """Return the record in a file of a directory that is the user's alone."""
    try:
        with entered(folder) as place:
            return parse(content(place, name))
    except OSError:
        return None


def named(bases: Iterable[Path]) -> str:
    return ", ".join(map(str, bases))


def last_start(record: JobRecord) -> Path:
    """Return the directory of a job's last start, or of the last launch of a script whose shell goes on after it."""
    return Path(record.folder, str(record.restart) if record.restart >= 0 else records.LAST)


def log(record: JobRecord) -> Path:
    return last_start(record) / records.LOG


def request(folder: Path) -> Submitted | None:
    return _record(folder, records.SUBMITTED, records.submitted)


def requested(folder: Path) -> Requested | None:
    """Return what a submitted job was made of, or None if no mnrun has written that down."""
    return _record(folder, records.REQUEST, records.requested)


def outcome(folder: Path) -> Ended | None:
    """Return the end that was recorded in the directory of a start or of a live run, or None."""
    return _record(folder, records.OUTCOME, records.outcome)


def text(folder: Path, name: str) -> str:
    """Return the text of another file in the directory of a start or of a live run, or "" if there is none."""
    return _record(folder, name, str) or ""


def tail(folder: Path, name: str, size: int) -> str:
    """Return the same of its last bytes."""
    with suppress(OSError), entered(folder) as place:
        return content(place, name, size)
    return ""


def started(folder: Path) -> dict[str, set[int]]:
    """Return node -> the ranks that have started there, by the guards' lines in this directory of a start."""
    by_node: dict[str, set[int]] = {}
    for line in text(folder, records.LOG).split("\n"):
        words = line.split(" ")
        if words[0] == "rank" and len(words) == 4 and words[2].isdecimal():
            by_node.setdefault(words[1], set()).add(int(words[2]))
    return by_node


def failures(folder: Path) -> list[tuple[int, str, int]]:
    """Return (rank, node, code) of the ranks that failed by themselves, the first one first, by the same lines. That of
    a rank which had a TERM before ends in `told`. A rank of mpirun has no such line."""
    found = re.findall(r"^ended (\S+) (\d+) ([1-9]\d*)$", text(folder, records.LOG), re.MULTILINE | re.ASCII)
    return [(int(rank), node, int(code)) for node, rank, code in found]


def rank_files(folder: str) -> dict[tuple[int, str], Path]:
    """Return (rank, out or err) -> its file, for the ranks that have one by now."""
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    files = {records.rank_of(name): Path(folder, name) for name in names}
    return dict(sorted((key, path) for key, path in files.items() if key is not None))


def forget_some(base: Path, now: float) -> None:
    """Remove some records of jobs that ended long ago. Each new record looks at a few, so that they do not pile up."""
    names = _named(base, (), 0)
    for name in random.SystemRandom().sample(names, min(SAMPLE, len(names))):
        record = _job_record(base / name) if 0 < _write_time(base / name) < now - OLD else None
        if record is not None and (record.over or record.launched) and record.time < now - OLD:
            shutil.rmtree(base / name, ignore_errors=True)


def remove(folder: str) -> None:
    """Remove the directory of a job, but of no other user's. Raises UsageError if that fails."""
    path = Path(folder)
    try:
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            raise UsageError(f"{path} is not a directory of yours", "remove it by hand")
        shutil.rmtree(path)
    except OSError as error:
        raise UsageError(f"cannot remove {path}: {error.strerror}") from None

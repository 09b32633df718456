"""Find, read and remove the directories of submitted jobs. records.py knows their content."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Callable, TypeVar

from mnrun.errors import UsageError
from mnrun.jobs import records
from mnrun.jobs.records import Ended, JobRecord, Submitted

T = TypeVar("T")

PLACES = "places"  # in ~/.mnrun: the directories of jobs beside the usual one, a line each


def usual(home: Path) -> Path:
    """Return the directory of jobs' records by default."""
    return home / ".mnrun" / "jobs"


def remember(home: Path, base: Path) -> None:
    """Write down that jobs of this user lie in `base`. Later commands then find them without --job-dir."""
    if base in (usual(home), *places(home)):
        return
    with suppress(OSError):
        usual(home).parent.mkdir(mode=0o700, exist_ok=True)
        with open(usual(home).parent / PLACES, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{base}\n")


def places(home: Path) -> list[Path]:
    """Return the directories that `remember` has written down."""
    try:
        text = (usual(home).parent / PLACES).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    return [Path(line) for line in text.split("\n") if line.startswith("/")]


def read(bases: Iterable[Path], ids: Iterable[str] = ()) -> dict[str, JobRecord]:
    """Return id -> record of these jobs and of the tasks of these arrays. If `ids` is empty, the result has all
    jobs. A task has the request of its array."""
    names = set(ids)
    result: dict[str, JobRecord] = {}
    requests: dict[Path, Submitted | None] = {}
    for base in bases:
        try:
            folders = [name for name in os.listdir(base) if records.is_id(name)]
        except OSError:
            continue
        selection = [name for name in folders if not names or name in names or name.partition("_")[0] in names]
        job_records = (_job_record(base / name) for name in sorted(set(selection) - set(result)))
        for record in filter(None, job_records):
            array = base / record.array
            if record.submitted is None and array not in requests:
                requests[array] = request(array)
            result[record.id] = replace(record, submitted=record.submitted or requests[array])
    return result


def _job_record(path: Path) -> JobRecord | None:
    """Return the record of a job's last start, or None if the directory is no job's."""
    try:
        starts = records.restarts(os.listdir(path))
    except OSError:
        return None
    asked = request(path)
    if not starts:
        return JobRecord(path.name, asked, folder=str(path)) if asked is not None else None
    last = path / str(starts[-1])
    begun = _record(last / records.BEGUN, records.begun)
    ended = outcome(last)
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


def _record(path: Path, parse: Callable[[str], T | None]) -> T | None:
    try:
        return parse(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return None


def named(bases: Iterable[Path]) -> str:
    """Return these directories as text for a message."""
    return ", ".join(map(str, bases))


def last_start(record: JobRecord) -> Path:
    """Return the directory of the job's last start."""
    return Path(record.folder, str(record.restart))


def log(record: JobRecord) -> Path:
    """Return the file with the guards' lines of the job's last start."""
    return last_start(record) / records.LOG


def request(folder: Path) -> Submitted | None:
    """Return the request that was recorded in the directory of a job or an array, or None."""
    return _record(folder / records.SUBMITTED, records.submitted)


def outcome(folder: Path) -> Ended | None:
    """Return the end that was recorded in the directory of a start or of a live run, or None."""
    return _record(folder / records.OUTCOME, records.outcome)


def ranks(record: JobRecord) -> dict[str, set[int]]:
    """Return node -> the ranks that have started there in the job's last start."""
    return started(log(record))


def started(path: Path) -> dict[str, set[int]]:
    """Return node -> the ranks that have started there, by the guards' lines in this file."""
    by_node: dict[str, set[int]] = {}
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="surrogateescape").split("\n"):
            words = line.split(" ")
            if words[0] == "rank" and len(words) == 4 and words[2].isdecimal():
                by_node.setdefault(words[1], set()).add(int(words[2]))
    return by_node


def rank_files(folder: str) -> dict[tuple[int, str], Path]:
    """Return (rank, out or err) -> its file, for the ranks that have one by now."""
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    files = {records.rank_of(name): Path(folder, name) for name in names}
    return dict(sorted((key, path) for key, path in files.items() if key is not None))


def remove(record: JobRecord) -> Path:
    """Remove the directory of a job, but of no other user's. Raises UsageError if that fails. Returns the directory."""
    path = Path(record.folder)
    remove_folder(path)
    return path


def remove_folder(path: Path) -> None:
    """Remove a directory, but of no other user's. Raises UsageError if that fails."""
    try:
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            raise UsageError(f"{path} is not a directory of yours", "remove it by hand")
        shutil.rmtree(path)
    except OSError as error:
        raise UsageError(f"cannot remove {path}: {error.strerror}") from None

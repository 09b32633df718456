"""The directories of submitted jobs: found, read, and removed when they are old. records.py knows what is in them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Callable, TypeVar

from mnrun.errors import UsageError
from mnrun.jobs import records
from mnrun.jobs.state import Kept

T = TypeVar("T")

PLACES = "places"  # in ~/.mnrun: the directories of jobs that are not the usual one, a line each


def usual(home: Path) -> Path:
    """Where jobs leave their records, where nobody says otherwise."""
    return home / ".mnrun" / "jobs"


def remember(home: Path, base: Path) -> None:
    """That jobs of this user lie there: so they are found without the words that said so when they were handed in."""
    if base in (usual(home), *places(home)):
        return
    with suppress(OSError):
        usual(home).parent.mkdir(mode=0o700, exist_ok=True)
        with open(usual(home).parent / PLACES, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{base}\n")


def places(home: Path) -> list[Path]:
    """What is remembered."""
    try:
        text = (usual(home).parent / PLACES).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    return [Path(line) for line in text.split("\n") if line.startswith("/")]


def kept(bases: Iterable[Path], wanted: Iterable[str] = ()) -> dict[str, Kept]:
    """id -> what lies there of these jobs and of the tasks of these arrays; of all where none is named."""
    names = set(wanted)
    found: dict[str, Kept] = {}
    for base in bases:
        try:
            there = [name for name in os.listdir(base) if records.is_id(name)]
        except OSError:
            continue
        chosen = [name for name in there if not names or name in names or name.partition("_")[0] in names]
        ones = (_one(base / name) for name in sorted(set(chosen) - set(found)))
        found.update({one.id: one for one in ones if one is not None})
    return found


def _one(path: Path) -> Kept | None:
    """The last start of a job; None where this is no directory of a job."""
    try:
        starts = records.restarts(os.listdir(path))
    except OSError:
        return None
    asked = _record(path / records.SUBMITTED, records.submitted)
    if not starts:
        return Kept(path.name, asked, place=str(path)) if asked is not None else None
    last = path / str(starts[-1])
    begun = _record(last / records.BEGUN, records.begun)
    ended = _record(last / records.OUTCOME, records.outcome)
    touched = max(_written(last), _written(last / records.LOG)) if ended is None else 0
    return Kept(path.name, asked, starts[-1], begun, ended, touched, str(path))


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0


def _record(path: Path, read: Callable[[str], T | None]) -> T | None:
    try:
        return read(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return None


def named(bases: Iterable[Path]) -> str:
    """These directories in a message."""
    return ", ".join(map(str, bases))


def log(found: Kept) -> Path:
    """The guards' lines of its last start."""
    return Path(found.place, str(found.restart), records.LOG)


def ranks(found: Kept) -> dict[str, set[int]]:
    """node -> the ranks that have said there that they begin, in its last start."""
    there: dict[str, set[int]] = {}
    with suppress(OSError):
        for line in log(found).read_text(encoding="utf-8", errors="surrogateescape").split("\n"):
            words = line.split(" ")
            if words[0] == "rank" and len(words) == 4 and words[2].isdecimal():
                there.setdefault(words[1], set()).add(int(words[2]))
    return there


def rank_files(folder: str) -> dict[tuple[int, str], Path]:
    """(rank, out or err) -> its file, for the ranks that have one by now."""
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    found = {records.rank_of(name): Path(folder, name) for name in names}
    return dict(sorted((key, path) for key, path in found.items() if key is not None))


def remove(found: Kept) -> Path:
    """Remove the directory of a job, and nothing that is not this user's. Raises UsageError where it cannot be."""
    path = Path(found.place)
    remove_folder(path)
    return path


def remove_folder(path: Path) -> None:
    """As `remove`."""
    try:
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            raise UsageError(f"{path} is not a directory of yours", "remove it by hand")
        shutil.rmtree(path)
    except OSError as error:
        raise UsageError(f"cannot remove {path}: {error.strerror}") from None

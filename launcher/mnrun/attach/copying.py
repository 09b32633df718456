"""Copy files into the container of a running job and out of it, by tar on both sides, whole or not at all."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mnrun.attach.target import Entry
from mnrun.errors import NodeError, UsageError
from mnrun.model import Words
from mnrun.record import Record
from mnrun.system import client, commands

END = ".mnrun-end"  # the last file of an archive that was sent whole
ROOM = ".mnrun-cp-"  # begins the name of a directory for what has not arrived whole
ABSENT, NO_TAR, CHANGED, NO_FOLDER, TAKEN = 44, 45, 46, 47, 48  # exit codes of the scripts below; tar has 0 to 2
# tar(1), "RETURN VALUE": 1 of GNU's tar means that a file has changed meanwhile. Another tar fails with it.
OUT = f"""
command -v tar >/dev/null || exit {NO_TAR}
cd -- "$1" 2>/dev/null || exit {ABSENT}
[ -e "./$2" ] || [ -L "./$2" ] || exit {ABSENT}
tar -cf - "./$2"
code=$?
case $code$(tar --version 2>/dev/null) in 1*GNU*) exit {CHANGED} ;; esac
exit "$code"
"""
IN = f"""
command -v tar >/dev/null || exit {NO_TAR}
last=$2
if [ -d "$1" ]; then into=$1
else
  case $1 in */) exit {NO_FOLDER} ;; */*) into=${{1%/*}}/ last=${{1##*/}} ;; *) into=. last=$1 ;; esac
fi
[ -d "$into" ] || exit {NO_FOLDER}
[ ! -d "$into/$last" ] || exit {TAKEN}
room=$into/{ROOM}$$
mkdir -m 700 "$room" || exit 1
trap 'rm -rf "$room"' EXIT
trap 'exit 1' HUP INT TERM
tar -xopf - -C "$room" && [ -e "$room/{END}" ] && mv -f "$room/$2" "$into/$last"
"""
Enter = Callable[[Words], Entry]  # returns the command that runs these words in the container


class Place(Record):
    """A path in the container of a job: ID:PATH, or ID:NODE:PATH. Without an ID, it is the only job that runs."""

    job: str
    node: str
    path: str

    def __str__(self) -> str:
        return self.path


def place(text: str) -> Place | None:
    """Return the place that a word looks like, by an id, a name or none, or None for a path of this machine."""
    match = re.fullmatch(r"([^:/]*):(?:([^:/]+):)?(.+)", text, re.DOTALL)
    return Place(match[1], match[2] or "", match[3]) if match else None


def fetch(enter: Enter, path: str, target: Path, job: str = "") -> str:
    """Copy a file or directory of the container of a job to this machine. Return the name of its node. Raises
    LaunchError."""
    folder, name = os.path.split(path.rstrip("/") or "/")
    if name in ("", ".", ".."):
        raise UsageError(f"{path} has no name", "write the path of a file or a directory")
    last = target / name if target.is_dir() else target
    if last.is_dir() or not last.parent.is_dir():
        problem = f"{last} is there" if last.is_dir() else f"there is no directory {last.parent}"
        raise UsageError(problem, "remove it, or name another place" if last.is_dir() else "make it, or name another")
    entry = enter(("sh", "-c", OUT, "sh", folder or ".", name))
    with tempfile.TemporaryFile() as said, _room(last.parent) as room:
        # so that no setuid bit of an image becomes one of the user's
        words = ("-xof", "-", "--no-same-permissions", "-C", str(room))
        taker = _tar(*words, stdin=subprocess.PIPE, stderr=said)
        assert taker.stdin is not None
        with taker.stdin as pipe:
            code = client.run(entry.command, entry.environ, entry.lines.own, pipe.fileno())
        taken = taker.wait()
        _refuse(code, entry.node, path, job)
        if taken or not os.path.lexists(room / name):
            said.seek(0)
            why = commands.last_line(said.read().decode("utf-8", "replace"))
            raise NodeError(f"{path} has not arrived whole{f': {why}' if why else ''}", "nothing of it is left")
        os.replace(room / name, last)
    return entry.node


def send(enter: Enter, source: Path, path: str, job: str = "") -> None:
    """Copy a file or directory of this machine into the container of a job. Raises LaunchError."""
    if not os.path.lexists(source):
        raise UsageError(f"there is no {source} here", "check the path")
    source = source.absolute() if source.name not in ("", "..") else source.resolve()
    entry = enter(("sh", "-c", IN, "sh", path, source.name))
    with tempfile.TemporaryDirectory() as beside:
        Path(beside, END).touch()
        members = ("-C", str(source.parent), f"./{source.name}", "-C", beside, f"./{END}")
        with _tar("-cf", "-", *members, stdout=subprocess.PIPE) as giver:
            assert giver.stdout is not None
            with giver.stdout as pipe, _as_input(pipe.fileno()):
                code = client.run(entry.command, entry.environ, entry.lines.own)
    _refuse(code, entry.node, path, job)


@contextmanager
def _room(parent: Path) -> Iterator[Path]:
    """Yield a directory on the disk of the target, which goes at the end. Raises UsageError."""
    try:
        room = Path(tempfile.mkdtemp(prefix=ROOM, dir=parent))
    except OSError as error:
        raise UsageError(f"cannot write to {parent}: {error.strerror}", "name another place") from None
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _tar(
    *words: str, stdin: int | None = None, stdout: int | None = None, stderr: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(("tar", *words), stdin=stdin, stdout=stdout, stderr=stderr)
    except OSError as error:
        raise UsageError(f"cannot start tar: {error.strerror}", "install it") from None


@contextmanager
def _as_input(file: int) -> Iterator[None]:
    """Let a file be the standard input of this process and of those that it starts."""
    before = os.dup(0)
    os.dup2(file, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def _refuse(code: int, node: str, path: str, job: str) -> None:
    """Raise the error for the exit code of a script above, unless the copy is whole."""
    on, folder = f"on {node}" if node else "there", os.path.dirname(path.rstrip("/")) or "."
    wanted = path.rstrip("/") if path.endswith("/") else folder

    def line(*words: str) -> str:
        return shlex.join(("mnrun", "exec", *filter(None, (job,)), *(("--node", node) if node else ()), "--", *words))

    told = {
        ABSENT: UsageError(f"there is no {path} {on}", f"{line('ls', folder)} shows what is there"),
        NO_TAR: UsageError(f"the image has no tar, by which mnrun copies {on}", f"one file: {line('cat', path)}"),
        NO_FOLDER: UsageError(f"there is no directory for {path} {on}", f"make it: {line('mkdir', '-p', wanted)}"),
        TAKEN: UsageError(f"{path} {on} has a directory of this name", "remove it, or name another place"),
    }
    if code not in (0, CHANGED):
        raise told.get(code) or NodeError(
            f"{path} was not copied whole {on}: exit code {code}", "nothing of it is left"
        )

"""A node's directory in tmp_path, in which wrappers run for real: no container, no MPI, no Slurm."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mnrun.model import Site
from mnrun.nodes import kit
from mnrun.planning.commands import job_here
from unit.conftest import Shell, own
from unit.samples import build, make

SHELLS = ("sh", "dash", "bash")
WHO = 'set -- $(cat /proc/$$/stat); shift 21; echo "$$ $1"'  # this shell's number and start, as others note them
BY_INTO = ("clean_env.sh", "wait_go.sh", "hold_container.sh", "worker.sh", "stop.sh")


PROCESS = re.compile(r"^(?:(rank) (\d+) \d+|(pid|serve|held)(?: (\d+))?) (\d+ \d+(?: pid:\[\d+\])?)$")


def lay(place: Path, files: Mapping[str, str]) -> None:
    """Write the files of a kit. Both sides of the directory are one here, since no container keeps them apart."""
    (place / "box").symlink_to(".")
    for name, text in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text, encoding="utf-8", errors="surrogateescape")


class Node:
    """A node's directory as the guard leaves it. Both sides of it are one."""

    def __init__(self, sh: Shell, path: Path) -> None:
        self.sh = sh
        self.path = path
        self._by_into: tuple[str, ...] = BY_INTO
        self._lines = ""

    def fill(self, *ranks: int, launch: str = "", command: Sequence[str] = ("./app",), **given: Any) -> None:
        command = () if given.get("shell") else command
        plan = make(build(*command, **{"chdir": str(self.path), **given}), *ranks)
        if plan.spec.start.mode == "outside-in":
            self._by_into = (*BY_INTO, "rank.sh")
        extra = {"launch.env": launch, "index": "0\n", "master": "127.0.0.1 20000\n"}
        lay(own(self.path), kit.files(plan, extra, job_here(Site("slurm", "7"))))
        os.mkfifo(self.path / "up")
        self._up = os.open(self.path / "up", os.O_RDWR | os.O_NONBLOCK)
        for program in (*self.path.glob("bin/*"), *self.path.glob("out/*")):
            program.chmod(0o700)

    def run(self, wrapper: str, *words: str, shell: str = "sh", before: str = "", **how: Any) -> bytes:
        """Run `WRAPPER WORDS` by its own shell, after the lines `before`: by into.sh or by its name, as a launch."""
        entered = ("-c", kit.spoken(kit.INTO), str(self.path), wrapper)
        start = entered if wrapper in self._by_into else (str(self.path / wrapper),)
        return self.sh(before + 'exec "$@"', shell, *start, *words, **how)

    def _heard(self) -> list[str]:
        with suppress(BlockingIOError):
            while block := os.read(self._up, 65536):
                self._lines += block.decode()
        return self._lines.splitlines()

    @property
    def said(self) -> str:
        """Return what the guard would have heard, but for the processes that say who they are."""
        heard = (re.sub(r"^(rank \d+ \d+) .*", r"\1", line) for line in self._heard())
        return "".join(f"{line}\n" for line in heard if not PROCESS.match(line))

    @property
    def processes(self) -> dict[str, str]:
        """What processes have said of themselves, by the names of the guard's files. The last word of each counts."""
        found = filter(None, map(PROCESS.match, self._heard()))
        return {f"pid.{it[2] or it[4]}" if it[1] or it[4] else str(it[3]): it[5] for it in found}


def path_of(place: Path, names: Iterable[str]) -> str:
    """Return a PATH with these programs alone, in a folder that it makes."""
    place.mkdir()
    for name in names:
        found = shutil.which(name)
        assert found, name
        (place / name).symlink_to(found)
    return str(place)


def programs(folder: Path, **said: str) -> Path:
    """Programs that say so, by their names."""
    folder.mkdir()
    for name, text in said.items():
        place = folder / name.replace("mpiexec_hydra", "mpiexec.hydra")
        executable(place, f"echo '{text}' \"$@\"")
    return folder


def executable(path: Path, script: str) -> None:
    """Write a program of these lines, and its folder."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)

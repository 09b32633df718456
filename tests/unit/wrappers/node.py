"""A node's directory in tmp_path, in which wrappers run for real: no container, no MPI, no Slurm."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mnrun.nodes import kit
from unit.conftest import Shell, own
from unit.samples import build, make

SHELLS = ("sh", "dash", "bash")
WHO = 'set -- $(cat /proc/$$/stat); shift 21; echo "$$ $1"'  # this shell's number and start, as others note them
BY_INTO = ("clean_env.sh", "wait_go.sh", "hold_container.sh", "worker.sh", "stop.sh")


class Node:
    """A node's directory as the guard leaves it, but that `up` is a file, so that it can be read at leisure."""

    def __init__(self, sh: Shell, path: Path) -> None:
        self.sh = sh
        self.path = path
        self._by_into: tuple[str, ...] = BY_INTO

    def fill(self, *ranks: int, launch: str = "", **given: Any) -> None:
        command = () if given.get("shell") else ("./app",)
        plan = make(build(*command, **{"chdir": str(self.path), **given}), *ranks)
        if plan.spec.start.mode == "outside-in":
            self._by_into = (*BY_INTO, "rank.sh")
        for folder in ("bin", "out"):
            (own(self.path) / folder).mkdir()
        made = {"launch.env": launch, "up": "", "index": "0\n", "master": "127.0.0.1 20000\n"}
        files = kit.files(plan, made)
        for name, text in files.items():
            (self.path / name).write_text(text, encoding="utf-8", errors="surrogateescape")
        for program in (*self.path.glob("bin/*"), *self.path.glob("out/*")):
            program.chmod(0o700)

    def run(self, wrapper: str, *words: str, shell: str = "sh", before: str = "", **how: Any) -> bytes:
        """Run `WRAPPER WORDS` by its own shell, after the lines `before`: by into.sh or by its name, as a launch."""
        entered = ("-c", kit.spoken(kit.INTO), str(self.path), wrapper)
        start = entered if wrapper in self._by_into else (str(self.path / wrapper),)
        return self.sh(before + 'exec "$@"', shell, *start, *words, **how)

    @property
    def said(self) -> str:
        """What would have gone up to the launcher; later words lie over earlier ones, as in no pipe."""
        return (self.path / "up").read_text()


def path_of(place: Path, names: Iterable[str]) -> str:
    """A PATH with these programs alone, in a folder that it makes."""
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

"""The guard of the unit tests: what it stops, and what it lets through."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Callable

import pytest

from unit.conftest import Shell
from unit.decoys import CODE, NAMES, Decoys

HERE = Path(__file__)
NOWHERE = HERE.with_name("nowhere")  # should the guard ever fail, nothing comes to harm
TOUCHES: dict[str, tuple[Callable[[], object], str]] = {
    "run": (lambda: subprocess.run(["true"], check=False), "started a process"),
    "popen": (lambda: os.popen("true"), "started a process"),
    "system": (lambda: os.system("true"), "started a process"),
    "exec": (lambda: os.execv(NOWHERE, ["true"]), "started a process"),
    "spawn": (lambda: os.posix_spawn(NOWHERE, ["true"], {}), "started a process"),
    "kill": (lambda: os.kill(os.getpid(), signal.SIGCONT), "sent a signal"),
    "socket": (socket.socket, "went to the network"),
    "resolve": (lambda: socket.getaddrinfo("localhost", 22), "went to the network"),
    "open": (lambda: HERE.open("a"), "changed a file outside tmp_path"),
    "os.open": (lambda: os.open(HERE, os.O_RDWR), "changed a file outside tmp_path"),
    "write_text": (lambda: (NOWHERE / "new").write_text("x"), "changed a file outside tmp_path"),
    "mkdir": (lambda: (NOWHERE / "new").mkdir(), "changed a file outside tmp_path"),
    "unlink": (NOWHERE.unlink, "changed a file outside tmp_path"),
    "rename": (lambda: NOWHERE.rename(NOWHERE / "new"), "changed a file outside tmp_path"),
    "rmtree": (lambda: shutil.rmtree(NOWHERE), "changed a file outside tmp_path"),
    "chmod": (lambda: HERE.chmod(HERE.stat().st_mode), "changed a file outside tmp_path"),
    "symlink": (lambda: (NOWHERE / "new").symlink_to(HERE), "changed a file outside tmp_path"),
}


@pytest.mark.parametrize("touch", TOUCHES)
def test_touching_the_world_says_what_it_was(touch: str) -> None:
    act, what = TOUCHES[touch]
    with pytest.raises(pytest.fail.Exception) as stopped:
        act()
    assert str(stopped.value).startswith(f"A unit test {what} (")
    assert "unit tests touch nothing of the world: " in str(stopped.value)


def test_no_handler_of_the_code_under_test_hides_it() -> None:
    with pytest.raises(pytest.fail.Exception), contextlib.suppress(Exception):
        subprocess.run(["true"], check=False)


def test_tmp_path_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_text("x")
    (tmp_path / "a/b").rename(tmp_path / "c")
    monkeypatch.chdir(tmp_path)
    Path("d").write_text("x")
    shutil.rmtree("a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "d"]


def test_each_section_of_cases_has_its_test() -> None:
    for file in HERE.parent.rglob("*.md"):
        tests = file.with_name(f"test_{file.stem}.py")
        for name in re.findall(r"^## (test_\w+)$", file.read_text(encoding="utf-8"), re.MULTILINE):
            assert f"\ndef {name}(cases: Cases" in tests.read_text(encoding="utf-8"), f"{file}: {name}"


def test_nothing_of_a_surrounding_job_is_there() -> None:
    assert not [name for name in os.environ if name.startswith(("SLURM_", "MNRUN_", "OMPI_", "PMI"))]


def test_the_shell_helper_is_bare(sh: Shell, tmp_path: Path) -> None:
    assert sh('pwd; printf %s "${PYTHONPATH-none} $1"', "a b").decode() == f"{tmp_path}\nnone a b"


@pytest.mark.parametrize("start", ["mpirun -n 2 ./app", "exec mpirun -n 2 ./app", "env mpirun -n 2 ./app"])
def test_a_program_of_the_machine_would_be_noticed(sh: Shell, decoys: Decoys, start: str) -> None:
    sh(start, code=CODE)
    with pytest.raises(pytest.fail.Exception, match=r"mpirun -n 2 ./app. Put a stand-in in PATH"):
        decoys.refuse()
    assert decoys.started() == []


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_with_all_programs_and_one_without(sh: Shell, decoys: Decoys, name: str) -> None:
    assert sh(f"command -v {name}").decode().startswith(os.environ["PATH"].partition(":")[0])
    sh(f"command -v {name}", environ={"PATH": decoys.without}, code=127)

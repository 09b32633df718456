"""`mnrun shim`: the programs that it writes, the lines that it runs, and the containers that have names."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from pytest_mock import MockerFixture

from mnrun.jobs import launches, named
from mnrun.jobs.launches import LaunchRecord
from unit.typed import Complaint, Launched, Terminal

IMAGE = "--container-image=/a.sif"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Be in job 7, and return the home directory."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def shown(mnrun: Terminal, *words: str) -> str:
    answer = mnrun("shim", "--show", "--", *words)
    assert answer.code == 0, answer
    return answer.out.strip()


def test_it_writes_programs_and_the_line_to_evaluate(
    mnrun: Terminal, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert mnrun("shim").out == f"export PATH={home}/.mnrun/shim:$PATH\n"
    folder = home / ".mnrun/shim"
    assert sorted(path.name for path in folder.iterdir()) == ["enroot", "sbatch", "srun"]
    assert all(os.access(path, os.X_OK) for path in folder.iterdir())
    slurms = home / "bin"
    slurms.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{slurms}")
    assert shown(mnrun, "srun", "-N2", "./app") == "srun -N2 ./app"
    assert shown(mnrun, "make", "-j") == "make -j"


def test_a_program_gets_its_words_as_they_are(mnrun: Terminal, home: Path, mocker: MockerFixture) -> None:
    mocker.patch("signal.signal")
    begun = mocker.patch("os.execv", side_effect=SystemExit(0))
    mnrun("shim", "--", f"{home}/program", "two words", "$(x);", "")
    begun.assert_called_once_with(f"{home}/program", [f"{home}/program", "two words", "$(x);", ""])


def test_it_says_where_it_cannot_write(mnrun: Terminal, complaint: Complaint, home: Path) -> None:
    (home / "file").touch()
    complaint(mnrun("shim", "--directory", f"{home}/file"), 122)


def test_a_line_runs(mnrun: Terminal, job: Launched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYXIS_CONTAINER_WORKDIR", "/w")
    assert mnrun("shim", "--", "srun", IMAGE, "-N2", "./app", "--x").code == 0
    spec = job.plan.spec
    assert (spec.program.command, str(spec.container.image), spec.program.chdir) == (("./app", "--x"), "/a.sif", "/w")
    assert job.plan.layout.ntasks == 2


@pytest.mark.parametrize(
    ("runtime", "option", "words"),
    [
        ("", "--container-writable", "--container-args --writable-tmpfs"),
        ("", "--container-remap-root", "--container-args --fakeroot"),
        ("charliecloud", "--container-remap-root", "--container-args --uid=0 --container-args --gid=0"),
        ("podman", "--container-remap-root", "--container-args --userns=host --container-args --user=0:0"),
        ("docker", "--container-readonly", "--container-args --read-only"),
        ("podman", "--container-writable", ""),
    ],
)
def test_a_trait_is_in_the_words_of_the_runtime(
    mnrun: Terminal, monkeypatch: pytest.MonkeyPatch, runtime: str, option: str, words: str
) -> None:
    monkeypatch.setenv("MNRUN_RUNTIME", runtime or "auto")
    said = shown(mnrun, "srun", "-n1", IMAGE, option, "./app")
    assert said.partition("--image /a.sif ")[2].partition("--ntasks")[0].strip() == words


def test_a_trait_that_a_runtime_lacks(mnrun: Terminal, complaint: Complaint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNRUN_RUNTIME", "docker")
    complaint(mnrun("shim", "--", "srun", IMAGE, "--container-remap-root", "./app"), 122)


# Names


def make(home: Path, *, writable: bool = False) -> None:
    named.remember(home, "7", "box", ["--image", "/a.sif", "--bind", "/d"], writable)


def start(mocker: MockerFixture, folder: Path, *nodes: str) -> None:
    (folder / "launcher").write_text(launches.mark())
    folder.chmod(0o700)
    record = LaunchRecord("7-abcdef", "slurm", "7", str(folder), nodes, folder=str(folder))
    mocker.patch.object(launches, "live", return_value=[record])


def test_a_name_makes_the_same_container_again(mnrun: Terminal, home: Path) -> None:
    make(home)
    assert shown(mnrun, "srun", "--container-name=box", "-n1", "./app").startswith(
        "mnrun run --image /a.sif --bind /d "
    )


def test_a_name_enters_the_container_that_runs(mnrun: Terminal, home: Path, mocker: MockerFixture) -> None:
    make(home, writable=True)
    start(mocker, home, "node01", "node02")
    line = ("srun", "--container-name=box", "-N1", "-n1", "-w", "node02", "--container-workdir=/w", "./app")
    assert shown(mnrun, *line).startswith("mnrun exec 7-abcdef --node node02 -- sh -c ")
    assert shown(mnrun, *line[:1], "--container-name=box:no_exec", IMAGE, "-n1", "./app").startswith("mnrun run ")


def test_a_driver_with_a_home_of_its_own_enters(
    mnrun: Terminal, home: Path, mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(home, writable=True)
    start(mocker, home, "node01")
    mocker.patch("pwd.getpwuid", return_value=mocker.Mock(pw_dir=str(home)))
    monkeypatch.setenv("HOME", "/elsewhere")
    assert shown(mnrun, "srun", "--container-name=box:exec", "-n1", "./app").startswith("mnrun exec 7-abcdef ")


def test_containers_that_run_here_are_listed(mnrun: Terminal, home: Path, mocker: MockerFixture) -> None:
    make(home)
    assert mnrun("shim", "--", "enroot", "list").out == ""
    start(mocker, home, "node01")
    assert mnrun("shim", "--", "enroot", "list", "-f").out == "NAME PID COMM\n"  # its guard is on another node
    (home / "own").write_text("mnrun.7-abcdef node01 42 1000 boot\n")
    assert mnrun("shim", "--", "enroot", "list").out == "pyxis_7_box\n"
    assert mnrun("shim", "--", "enroot", "list", "-f").out.splitlines()[1].split()[:2] == ["pyxis_7_box", "42"]


def test_a_line_of_enroots_own(mnrun: Terminal, mocker: MockerFixture) -> None:
    begun = mocker.patch("os.execv", side_effect=SystemExit(0))
    mocker.patch("signal.signal")
    assert mnrun("shim", "--", "enroot", "remove", "-f", "x").code == 0
    begun.assert_not_called()
    mnrun("shim", "--", "enroot", "import", "docker://a")
    assert begun.call_args[0][1] == ["enroot", "import", "docker://a"]


def test_help_names_pyxis(mnrun: Terminal, mocker: MockerFixture) -> None:
    """SkyPilot looks for it there."""
    own = CompletedProcess(("srun",), 3, "Usage: srun\n", "")
    mocker.patch("mnrun.system.commands.captured", return_value=own)
    answer = mnrun("shim", "--", "srun", "--help")
    assert (answer.code, answer.out.startswith("Usage: srun\n")) == (3, True)
    assert "[pyxis] --container-image=" in answer.out


def test_several_ranks_cannot_enter(mnrun: Terminal, complaint: Complaint, home: Path, mocker: MockerFixture) -> None:
    make(home)
    start(mocker, home, "node01", "node02")
    complaint(mnrun("shim", "--", "srun", "--container-name=box", "-N2", "./app"), 122)


@pytest.mark.parametrize(("name", "code"), [("none", 2), ("box", 122), ("box:exec", 2), ("../x", 2)])
def test_a_name_that_means_nothing(mnrun: Terminal, complaint: Complaint, home: Path, name: str, code: int) -> None:
    """The container of this name was written into, and no longer runs."""
    make(home, writable=True)
    complaint(mnrun("shim", "--", "srun", f"--container-name={name}", "-n1", "./app"), code)


def test_what_is_gone_is_told(mnrun: Terminal, home: Path) -> None:
    make(home, writable=True)
    answer = mnrun("shim", "--show", "--", "srun", "--container-name=box", "--container-image=/b.sif", "./app")
    assert (answer.code, answer.err.count("container box is made anew")) == (0, 1)
    assert answer.out.startswith("mnrun run --image /b.sif --ntasks")


def test_old_names_are_forgotten(home: Path) -> None:
    make(home)
    old = home / named.FOLDER / "6.box"
    old.write_text(json.dumps({}))
    os.utime(old, (time.time() - 31 * 86400,) * 2)
    make(home)
    assert [path.name for path in old.parent.iterdir()] == ["7.box"]

"""From Python: the same jobs as the verbs', with the same errors."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

import mnrun
from mnrun import versioned
from mnrun.api import Job
from mnrun.errors import UsageError
from mnrun.jobs import records
from mnrun.jobs.records import Begun, Ended
from mnrun.running import session, submission
from mnrun.schedulers import at_hand
from unit.conftest import Shell


@pytest.fixture
def paper(mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A login node of a Slurm site, outside of a job."""
    monkeypatch.setattr(os, "environ", {"HOME": str(tmp_path), "PATH": "/usr/bin"})
    monkeypatch.setattr(sys, "argv", ["/home/alice/sweep.py"])
    mocker.patch(
        "subprocess.run", side_effect=lambda argv, **_: subprocess.CompletedProcess(argv, 0, "slurm 24.11.5\n", "")
    )
    mocker.patch("mnrun.schedulers.slurm.is_here", return_value=True)
    mocker.patch.object(session, "cwd", return_value="/home/alice/run")
    return tmp_path


def job(**options: Any) -> Job:
    return Job(["./app", "-n", 5], image="/app.sif", **options)  # type: ignore[list-item]


def test_the_package_gives_the_interface() -> None:
    assert (mnrun.Job, mnrun.Job.__module__) == (Job, "mnrun.api")
    with pytest.raises(AttributeError, match="module 'mnrun' has no attribute 'jobs_'"):
        mnrun.jobs_  # noqa: B018


def test_a_plan_is_that_of_the_verb(paper: Path) -> None:
    """Values of any type arrive as a person would type them."""
    plan = job(
        nodes=2, ntasks_per_node=2, bind=["/a:/b"], env={"A": "x y", "B": 1}, keep=True, mpi_args=["--x", "a b"]
    ).plan()
    assert plan["layout"]["ranks"] == [2, 2]
    values = {name: plan["values"][name]["value"] for name in ("nodes", "bind", "env", "keep", "mpi_args")}
    assert values == {"nodes": "2", "bind": "/a:/b", "env": "A B", "keep": "true", "mpi_args": "--x a b"}


def test_a_script_calls_this_python(paper: Path) -> None:
    """And not the program that made the job."""
    script = job(nodes=2, time="1:00:00").script()
    assert f"exec {sys.executable} -c " in script
    assert " run --as-given" in script
    assert "by: mnrun.Job in sweep.py\n" in script
    assert "#SBATCH --time=1:00:00" in script


def test_it_takes_no_module_from_the_working_directory(tmp_path: Path, mocker: MockerFixture, sh: Shell) -> None:
    """(S9) Another user may be able to write there."""
    mocker.patch.object(sys, "argv", ["sweep.py"])
    for name in ("click", "mnrun", "shlex"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')")
    found = {"PYTHONPATH": str(Path(mnrun.__file__).parents[1])}
    assert sh('"$@"', *submission.own_call(), "--version", environ=found).startswith(b"mnrun ")
    assert not (tmp_path / "ran").exists()


def test_a_job_file_is_read(paper: Path) -> None:
    path = paper / "job.toml"
    path.write_text('image = "app.sif"\nnodes = 3\ncommand = ["./app"]\n')
    assert Job.read(path, nodes=2).plan()["layout"]["ranks"] == [1, 1]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"nodez": 2}, "there is no option nodez; did you mean nodes?"),
        ({"imge": "a.sif"}, "there is no option imge; did you mean image?"),
        ({"qqq": 1}, "there is no option qqq; the names are those of mnrun plan --help-all, with _ for -"),
        ({"bind": "/a"}, "bind='/a' is not a list"),
        ({"env": ["A=1"], "keep": "yes"}, "keep='yes' is not True or False"),
        ({"env": "A=1"}, "env='A=1' is not a mapping"),
        ({"nodes": 1.5}, "nodes=1.5 is not a text"),
    ],
)
def test_what_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as wrong:
        job(**options)
    assert str(wrong.value).startswith(problem)


def test_a_command_of_one_text_is_refused() -> None:
    with pytest.raises(UsageError, match="the command is one text"):
        Job("./app -n 5")


def test_the_environment_is_given_back(paper: Path, mocker: MockerFixture) -> None:
    """An allocation adds its variables for the launch alone."""

    def carry_out(command: tuple[str, ...], options: dict[str, object]) -> int:
        os.environ["SLURM_JOB_ID"] = "7"
        assert command == ("./app", "-n", "5")
        return 3

    mocker.patch.object(session, "carry_out", side_effect=carry_out)
    assert job().run() == 3
    assert "SLURM_JOB_ID" not in os.environ


def test_a_thread_runs_no_job(paper: Path, mocker: MockerFixture) -> None:
    """Python sets signals in its main thread alone, and two launches would share one environment."""
    carry_out = mocker.patch.object(session, "carry_out", return_value=0)
    with ThreadPoolExecutor(1) as pool, pytest.raises(UsageError) as wrong:
        pool.submit(job().run).result()
    assert wrong.value.remedy == "use submit() and wait(), or a process for each run"
    carry_out.assert_not_called()


def test_a_submitted_job_is_followed(paper: Path, mocker: MockerFixture) -> None:
    """Its id, its output, its end; and scancel for one that is to end."""
    queue = mocker.Mock()
    mocker.patch.object(at_hand({}), "submit", return_value=("42", ""))
    mocker.patch.object(at_hand({}), "user_queue", return_value=queue)
    handle = job(nodes=1, job_dir=str(paper / "jobs")).submit()
    assert (handle.id, handle.logs()) == ("42", "")
    folder = paper / "jobs/42/0"
    folder.mkdir()
    (paper / "out").write_text("hello\n")
    (folder / records.BEGUN).write_text(versioned.text(Begun(1.0, output=str(paper / "out"))))
    assert handle.logs() == "hello\n"
    handle.cancel()
    queue.cancel.assert_called_once_with(["42"], "", [])


def test_a_task_of_an_array_is_followed_by_itself(paper: Path, mocker: MockerFixture) -> None:
    """Its exit code and its output; and scancel for it alone."""
    queue = mocker.Mock()
    mocker.patch.object(at_hand({}), "submit", return_value=("42", ""))
    mocker.patch.object(at_hand({}), "user_queue", return_value=queue)
    tasks = job(nodes=1, array="0-1", job_dir=str(paper / "jobs")).submit()
    for number, code in enumerate((0, 3)):
        folder = paper / f"jobs/42_{number}/0"
        folder.mkdir(parents=True)
        (paper / f"{number}.out").write_text(f"hello {number}\n")
        (folder / records.BEGUN).write_text(versioned.text(Begun(1.0, output=str(paper / f"{number}.out"))))
        (folder / records.OUTCOME).write_text(versioned.text(Ended(2.0, code)))
    assert [tasks.task(number).wait() for number in (0, 1)] == [0, 3]
    assert [tasks.task(number).logs() for number in (0, 1)] == ["hello 0\n", "hello 1\n"]
    tasks.task(1).cancel()
    queue.cancel.assert_called_once_with(["42_1"], "", [])

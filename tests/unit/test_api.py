"""From Python: the same jobs as the verbs', with the same errors."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest_mock import MockerFixture

import mnrun
from mnrun import versioned
from mnrun.api import Job, SubmittedJob, mapping
from mnrun.errors import DeadlineError, SchedulerError, UsageError
from mnrun.jobs import records
from mnrun.jobs.records import Begun, Ended
from mnrun.running import request, session, submission
from mnrun.schedulers.queue import Snapshot
from mnrun.schedulers.slurm import scheduler as slurm
from unit.conftest import Shell
from unit.texts import Refused

if TYPE_CHECKING:  # scripts/lint asks mypy: a user's editor knows these types
    from typing_extensions import assert_type

    assert_type(mnrun.Job(["./app"]).submit(), mnrun.SubmittedJob)
    assert_type(mnrun.Job.attach(271), SubmittedJob)
    assert_type(list(mnrun.map(len, ["a"], image="app.sif")), list[int])


@pytest.fixture
def paper(mocker: MockerFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(os, "environ", {"HOME": str(tmp_path), "PATH": "/usr/bin"})
    monkeypatch.setattr(sys, "argv", ["/home/alice/sweep.py"])
    mocker.patch(
        "subprocess.run", side_effect=lambda argv, **_: subprocess.CompletedProcess(argv, 0, "slurm 24.11.5\n", "")
    )
    mocker.patch("mnrun.schedulers.slurm.scheduler.is_here", return_value=True)
    mocker.patch.object(request, "cwd", return_value="/home/alice/run")
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
    "options",
    [
        {"nodez": 2},
        {"imge": "a.sif"},
        {"qqq": 1},
        {"bind": "/a"},
        {"env": ["A=1"], "keep": "yes"},
        {"env": "A=1"},
        {"nodes": 1.5},
    ],
)
def test_what_is_refused(refused: Refused, options: dict[str, Any]) -> None:
    with refused(UsageError):
        job(**options)


def test_a_command_of_one_text_is_refused(refused: Refused) -> None:
    with refused(UsageError):
        Job("./app -n 5")


def test_the_environment_stays_as_it_is(paper: Path, mocker: MockerFixture) -> None:
    """Modules and an allocation change that of the launch alone."""
    mocker.patch("mnrun.system.modules.load", return_value={"LOADED": "1"})
    carry_out = mocker.patch.object(session, "carry_out", return_value=3)
    before = dict(os.environ)
    assert job(module=["openmpi"]).run() == 3
    (asked,) = carry_out.call_args.args
    assert (asked.spec.program.command, asked.environ) == (("./app", "-n", "5"), {"LOADED": "1"})
    assert asked.granted({"SLURM_JOB_ID": "7"}).environ == {"LOADED": "1", "SLURM_JOB_ID": "7"}
    assert dict(os.environ) == before


def test_a_thread_runs_no_job(refused: Refused, paper: Path, mocker: MockerFixture) -> None:
    """Python sets signals in its main thread alone, and two launches would share one environment."""
    carry_out = mocker.patch.object(session, "carry_out", return_value=0)
    with ThreadPoolExecutor(1) as pool, refused(UsageError):
        pool.submit(job().run).result()
    carry_out.assert_not_called()


def test_a_submitted_job_is_followed(paper: Path, mocker: MockerFixture) -> None:
    queue = mocker.Mock()
    mocker.patch.object(slurm, "submit", return_value=("42", ""))
    mocker.patch.object(slurm, "user_queue", return_value=queue)
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
    queue = mocker.Mock()
    mocker.patch.object(slurm, "submit", return_value=("42", ""))
    mocker.patch.object(slurm, "user_queue", return_value=queue)
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


def ended(paper: Path, number: str, code: int, text: str) -> None:
    folder = paper / f"jobs/{number}/0"
    folder.mkdir(parents=True, exist_ok=True)
    (paper / f"{number}.out").write_text(text)
    (folder / records.BEGUN).write_text(versioned.text(Begun(1.0, output=str(paper / f"{number}.out"))))
    (folder / records.OUTCOME).write_text(versioned.text(Ended(2.0, code)))


def test_a_handle_is_found_again(paper: Path, mocker: MockerFixture) -> None:
    """Lines of mnrun's and of the scheduler's client are none of the program's."""
    mocker.patch.object(slurm, "user_queue")
    ended(paper, "42", 3, "a\nmnrun: rank 0 exited with 3\nsrun: error: node01: task 0: Exited with exit code 3\nb")
    handle = Job.attach(42, paper / "jobs")
    assert (handle.id, handle.done(), handle.wait(5), handle.state) == ("42", True, 3, "failed")
    assert handle.status().state == "FAILED"
    assert handle.logs() == "a\nb"
    assert [*handle.logs(follow=True)] == ["a\n", "b"]


def test_a_job_that_nobody_knows(refused: Refused, paper: Path, mocker: MockerFixture) -> None:
    queue = mocker.patch.object(slurm, "user_queue").return_value
    queue.jobs.return_value = Snapshot((), time.time())
    queue.history.return_value = ()
    with refused(SchedulerError):
        Job.attach(42, paper / "jobs")


def test_a_wait_has_an_end(refused: Refused, paper: Path, mocker: MockerFixture) -> None:
    mocker.patch.object(SubmittedJob, "done", return_value=False)
    with refused(DeadlineError):
        SubmittedJob("42", [paper], mocker.Mock()).wait(0.01)


def square(value: int) -> int:
    if value < 0:
        raise ValueError(f"{value} is too small")
    return value * value


def test_a_function_is_mapped(
    sh: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture
) -> None:
    def runs_task(job: Job) -> None:
        names = {"MNRUN_JOB_ID": str(time.monotonic_ns()), "RANK": "0", "PYTHONPATH": ":".join(sys.path)}
        sh('"$@" 2>&1 || [ $? = 1 ]', sys.executable, *job._command[1:], environ=names)

    monkeypatch.setenv("HOME", str(tmp_path))
    mocker.patch.object(Job, "run", autospec=True, side_effect=runs_task)
    assert list(mnrun.map(square, [], local=True)) == []
    assert list(mnrun.map(square, [3, 4], local=True)) == [9, 16]
    with pytest.raises(ValueError, match="-1 is too small") as caught:
        list(mnrun.map(square, [-1], local=True))
    assert "in square" in str(caught.value.__cause__)
    assert os.listdir(tmp_path / mapping.PLACE) == []


@pytest.mark.parametrize("outcome", [143, DeadlineError("it goes on")])
def test_a_map_that_nobody_asks_is_over_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture, outcome: int | DeadlineError
) -> None:
    """A task may just be starting, and Slurm makes the directory of its output."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def wait(timeout: float) -> int:
        for output in seen:
            output.parent.mkdir(exist_ok=True)
            output.touch()
        if isinstance(outcome, DeadlineError):
            raise outcome
        return outcome

    def submit(job: Job) -> Any:
        seen.append(Path(str(job._options["output"]).replace("%a", "0")))
        return handle

    seen: list[Path] = []
    handle = mocker.Mock()
    handle.wait.side_effect = wait
    mocker.patch.object(Job, "submit", submit)
    results = mnrun.map(square, [3, 4], image="a.sif")
    handle.cancel.assert_not_called()
    del results
    handle.cancel.assert_called_once_with()
    assert os.listdir(tmp_path / mapping.PLACE) == []


@pytest.mark.parametrize("thing", ["lambda", "option"])
def test_what_cannot_be_mapped(refused: Refused, paper: Path, mocker: MockerFixture, thing: str) -> None:
    mocker.patch.dict(sys.modules, {"cloudpickle": None})
    function: Any = (lambda value: value) if thing == "lambda" else square
    options: dict[str, Any] = {"array": "1"} if thing == "option" else {}
    with refused(UsageError):
        mapping.map(function, [1], **options)
    assert not (paper / mapping.PLACE).exists() or os.listdir(paper / mapping.PLACE) == []


def test_nobody_else_writes_a_call(refused: Refused, paper: Path, mocker: MockerFixture) -> None:
    """(S1) pickle makes objects of a text. The place is refused if others may write to it."""
    place = paper / mapping.PLACE
    submit = mocker.patch.object(Job, "submit", side_effect=lambda: (place / os.listdir(place)[0]).stat().st_mode)
    results = mocker.patch.object(mapping, "_results", return_value=iter([None]))
    before = os.umask(0)
    try:
        mapping.map(square, [1])
        assert results.call_args.args[1] & 0o777 == 0o700
        assert place.stat().st_mode & 0o777 == 0o700
        place.chmod(0o777)
        with refused(UsageError):
            mapping.map(square, [1])
    finally:
        os.umask(before)
    submit.assert_called_once()

"""`mnrun submit` as it is typed: what is refused, what is warned of, and what is printed. sbatch is played."""

from __future__ import annotations

import shlex
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pytest_mock import MockerFixture

from mnrun.jobs import records
from mnrun.schedulers.queue import Job, PartitionNode
from mnrun.schedulers.slurm import scheduler as slurm
from mnrun.schedulers.vocabulary import JobState, NodeState
from published import checked
from unit.cli.test_jobs import Slurm
from unit.salloc import Queue
from unit.texts import Says
from unit.typed import Complaint, Terminal

HOST = ("--runtime", "host", "-N", "2")


@pytest.fixture
def sbatch(mocker: MockerFixture) -> MagicMock:
    """sbatch takes every script, as job 271."""
    mocker.patch.object(slurm, "name", return_value="c1")
    mocker.patch.object(slurm, "trace", return_value=None)
    return mocker.patch.object(slurm, "submit", return_value=("271", ""))


def test_the_id_and_the_way_to_its_output(mnrun: Terminal, sbatch: MagicMock, says: Says) -> None:
    answer = mnrun("submit", *HOST, "--", "hostname")
    assert (answer.code, answer.out) == (0, "271\n")
    says(answer.err)


def test_an_array_is_followed_by_its_tasks(mnrun: Terminal, sbatch: MagicMock, says: Says) -> None:
    says(mnrun("submit", *HOST, "-a", "3-9:2", "--", "hostname").err)
    assert "#SBATCH --output=%x-%A_%a.out" in sbatch.call_args.args[0]
    record = records.submitted((Path.home() / ".mnrun/jobs/271/submitted").read_text())
    assert record is not None and record.tasks == 4


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("-o", "%x/%j-%N.txt", "-J", "mine"), "mine/271-%N.txt"),
        (("-a", "0-3"), "hostname-271_%a.out"),
        (("-a", "0-3", "-o", "%A_%a.out"), "271_%a.out"),
        (("-o", "100%%j"), "100%j"),
    ],
)
def test_the_file_as_far_as_it_is_known(mnrun: Terminal, sbatch: MagicMock, words: tuple[str, ...], file: str) -> None:
    assert f"output: {file}; follow it" in mnrun("submit", *HOST, *words, "--", "hostname").err


@pytest.mark.parametrize(
    "words", [("-o", "there"), ("-o", "there/"), ("-e", "none/"), ("-J", 245 * "a" + "b")], ids=" ".join
)
def test_a_file_that_slurm_could_not_open(
    mnrun: Terminal, sbatch: MagicMock, tmp_path: Path, complaint: Complaint, words: tuple[str, ...]
) -> None:
    """(W1) Slurm would say `signal 53` of it."""
    (tmp_path / "there").mkdir()
    complaint(mnrun("submit", *HOST, *words, "--", "hostname"), 2)
    sbatch.assert_not_called()


def test_directories_of_the_output_are_made(mnrun: Terminal, sbatch: MagicMock, tmp_path: Path) -> None:
    words = ("-o", "new/%x/%j.out", "-e", "errors/of/%j/err", "-J", "mine")
    assert mnrun("submit", *HOST, *words, "--", "hostname").code == 0
    assert ((tmp_path / "new/mine").is_dir(), (tmp_path / "errors").exists()) == (True, False)
    (tmp_path / "closed").touch()
    answer = mnrun("submit", *HOST, "-o", "closed/new/out", "--", "hostname")
    assert (answer.code, answer.out, "closed/new" in answer.err) == (0, "271\n", True)


@pytest.mark.parametrize(("state", "code"), [("FAILED", 3), ("TIMEOUT", 124)])
def test_waiting_closes_with_the_result(
    mnrun: Terminal, sbatch: MagicMock, mocker: MockerFixture, state: str, code: int, says: Says
) -> None:
    queue = Slurm()
    queue.known = (Job("271", "hostname", JobState(state), code=code),)
    mocker.patch.object(slurm, "user_queue", return_value=queue)
    answer = mnrun("submit", "--wait", *HOST, "--", "hostname")
    assert (answer.code, answer.out) == (code, "271\n")
    says(answer.err)


def test_more_time_than_the_partition_allows(
    mnrun: Terminal, sbatch: MagicMock, mocker: MockerFixture, says: Says
) -> None:
    main = PartitionNode("main", True, "n1", NodeState.FREE, 0, 0, 2, 2, True, "1:00:00")
    mocker.patch.object(slurm, "user_queue", return_value=Queue(held=(main,)))
    answer = mnrun("submit", *HOST, "-t", "2:00:00", "--", "hostname")
    assert (answer.code, answer.out) == (0, "271\n")
    says(answer.err)


def test_quiet_prints_the_id_alone(mnrun: Terminal, sbatch: MagicMock) -> None:
    answer = mnrun("submit", "-Q", *HOST, "--", "hostname")
    assert (answer.out, answer.err) == ("271\n", "")


def test_faults_of_files_are_warnings(mnrun: Terminal, sbatch: MagicMock, tmp_path: Path, says: Says) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    (tmp_path / "job.sh").chmod(0o600)
    (tmp_path / "app.sif").write_text("no image")
    words = ("--image", "app.sif", "-B", "data:/d", "--chdir", "/nowhere", "--script", "job.sh")
    answer = mnrun("submit", "-N", "2", *words)
    assert answer.out == "271\n"
    says(answer.err)


def test_a_plan_names_the_same_faults(mnrun: Terminal, mocker: MockerFixture, tmp_path: Path, says: Says) -> None:
    main = PartitionNode("main", True, "n1", NodeState.FREE, 0, 0, 2, 2, True, "1:00:00")
    mocker.patch.object(slurm, "user_queue", return_value=Queue(held=(main,)))
    words = ("-N", "2", "-t", "2:00:00", "--image", "app.sif", "--job-dir", "file/jobs", "--", "./app")
    (tmp_path / "file").touch()
    plan = checked("plan", mnrun("plan", "--json", *words).out)
    faults = "\n".join(plan["verdict"][:5])
    assert f"{faults}\nMPI: none" in mnrun("plan", *words).out
    says(faults)
    assert (plan["judgement"]["ok"], plan["judgement"]["reason"]) == (False, "job-directory")
    says(plan["judgement"]["text"])


def test_a_plan_for_this_machine_is_sure(mnrun: Terminal, tmp_path: Path) -> None:
    plan = checked("plan", mnrun("plan", "--json", "--local", "--runtime", "host", "--", "./app").out)
    assert (plan["judgement"]["ok"], plan["judgement"]["reason"]) == (False, "program")
    plan = checked("plan", mnrun("plan", "--json", "--local", "--runtime", "host", "--", "app").out)
    assert (plan["judgement"]["ok"], plan["judgement"]["reason"]) == (None, "unknown")


@pytest.mark.parametrize("letter", ["t", "n"])
def test_a_file_for_each_rank_is_refused(mnrun: Terminal, sbatch: MagicMock, letter: str, complaint: Complaint) -> None:
    complaint(mnrun("submit", *HOST, "-o", f"out.%{letter}", "--", "hostname"), 122)
    assert not sbatch.called
    assert mnrun("submit", *HOST, "-o", "out.%N", "--", "hostname").code == 0


JOB = """
[job]
command = ["./app", "a b"]
name = "train"
[resources]
nodes = 2
ntasks_per_node = 2
time = "1:00:00"
[container]
image = "app.sif"
[env]
A = "one two"
"""
KINDS = shlex.split(
    """--mpi-args "--mca 'a b' c" --start-timeout 90s -B d:/d:ro -x !HOME -x "B=$x'y" --keep --no-requeue
    --slurm switches=1@30:00 --setup "! true" --setup "ulimit -n 9" --mem 4G"""
)


def _script(sbatch: MagicMock) -> list[str]:
    """Return the lines of the last script that was handed in, but for the one with the words that were typed."""
    return [line for line in sbatch.call_args.args[0].splitlines() if not line.startswith("# Written by")]


def test_the_same_job_once_more(
    mnrun: Terminal, sbatch: MagicMock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the files of today count nor the place, and the value of each kind of option is the same."""
    config = tmp_path / ".config" / "mnrun"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[container]\nbind = ["/mine"]\n[env]\nC = "mine"\n')
    (tmp_path / "app.sif").write_text("")
    (tmp_path / "job.toml").write_text(JOB)
    assert mnrun("submit", "job.toml", *KINDS).code == 0
    first = _script(sbatch)
    (config / "config.toml").write_text('[container]\nbind = ["/other"]\n')
    (tmp_path / "job.toml").unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("MNRUN_TIME", "5")
    for words in (("271",), ("train",), ("train",)):  # also one that has run once more
        assert mnrun("rerun", *words).code == 0
        assert _script(sbatch) == first
    for typed in (("271", "-N", "2"), ("-N", "2", "train")):  # the line that is named does it
        refused = mnrun("submit", *typed)
        assert refused.code == 2
        assert mnrun(*refused.err.partition("write mnrun ")[2].split()).code == 0, refused
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert mnrun("rerun", "271", "-N", "3", "-x", "A=three", "--time", "30", "-B", "!/mine").code == 0
    changed = "\n".join(_script(sbatch))
    for text in ("--nodes=3 ", "--time=30 ", "  A=three ", "  C=mine "):
        assert text in changed
    assert "one two" not in changed and "/mine" not in changed and "/other" not in changed


def test_the_tasks_of_an_array_once_more(
    mnrun: Terminal, sbatch: MagicMock, tmp_path: Path, mocker: MockerFixture, complaint: Complaint
) -> None:
    def array(*words: str) -> str:
        assert mnrun("rerun", *words).code == 0
        return next(line.split()[1] for line in _script(sbatch) if "--array" in line)

    queue = Slurm()
    mocker.patch.object(slurm, "user_queue", return_value=queue)
    assert mnrun("submit", *HOST, "-a", "0-3", "-d", "afterok:5", "--", "hostname").code == 0
    assert array("271") == "--array=0-3"
    assert "dependency" not in "\n".join(_script(sbatch)), "it was for that time"
    assert array("271_2") == "--array=2"
    codes = {0: 0, 1: 3, 2: 0, 3: 4}
    queue.known = tuple(
        Job(f"271_{task}", "hostname", JobState.FAILED if code else JobState.COMPLETED, code=code)
        for task, code in codes.items()
    )
    assert array("--failed", "271") == "--array=1,3"
    queue.known = tuple(Job(f"271_{task}", "hostname", JobState.COMPLETED, code=0) for task in codes)
    complaint(mnrun("rerun", "--failed", "271"))


def test_a_job_that_cannot_run_once_more(
    mnrun: Terminal, sbatch: MagicMock, tmp_path: Path, mocker: MockerFixture, complaint: Complaint
) -> None:
    mocker.patch.object(slurm, "user_queue", return_value=Slurm())
    mnrun("submit", *HOST, "--", "hostname")
    complaint(mnrun("rerun", "--failed", "271"))
    folder = Path.home() / ".mnrun/jobs/271"
    asked = (folder / records.REQUEST).read_text()
    (folder / records.REQUEST).write_text(asked.replace('"runtime"', '"run_time"'))
    complaint(mnrun("rerun", "271"))
    (folder / records.REQUEST).write_text(asked.replace(f'"cwd": "{tmp_path}', '"cwd": "/gone'))
    complaint(mnrun("rerun", "271"))
    (folder / records.REQUEST).write_text("[]")
    complaint(mnrun("rerun", "271"))
    (folder / records.SCRIPT).unlink()
    complaint(mnrun("rerun", "271"))
    (folder / records.SUBMITTED).write_text('{"id": "271", "own": true}')
    complaint(mnrun("rerun", "271"))
    complaint(mnrun("rerun", "272"), 123)
    complaint(mnrun("rerun", "no-such-name"))

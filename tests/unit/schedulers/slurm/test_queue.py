"""Asking Slurm about jobs: how often, in which words, and what becomes of no answer.

pyslurm cannot be had here (it must be built against the cluster's own Slurm), so it is a stand-in.
"""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import NotYours, SchedulerError, UsageError
from mnrun.schedulers.slurm.queue import UserQueue
from mnrun.system import commands
from unit.samples import RECORDED
from unit.texts import Refused

ALICE = 1500
DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"


class Slurm:
    """Answers commands by their first words: with a text, or with (code, what it says on standard error)."""

    def __init__(self) -> None:
        self.answers: dict[str, str | tuple[int, str]] = {}
        self.asked: list[list[str]] = []
        self.environ: dict[str, str] = {}

    def __call__(self, words: list[str], **how: object) -> subprocess.CompletedProcess[str]:
        assert how["stdin"] == subprocess.DEVNULL
        assert how["timeout"], "it would hang with slurmctld"
        assert isinstance(how["env"], dict)
        self.environ = how["env"]
        line = " ".join(words)
        said = next((said for start, said in self.answers.items() if line.startswith(start)), None)
        if said is None:
            raise FileNotFoundError(words[0])
        self.asked.append(list(words))
        code, err = said if isinstance(said, tuple) else (0, "")
        return subprocess.CompletedProcess(words, code, "" if isinstance(said, tuple) else said, err)


@pytest.fixture
def slurm(mocker: MockerFixture) -> Slurm:
    slurm = Slurm()
    slurm.answers["squeue -a -t all -u 1500 -h -O"] = (RECORDED / "answers" / "squeue.txt").read_text()
    slurm.answers["sacct"] = (RECORDED / "answers" / "sacct.txt").read_text()
    slurm.answers["sinfo"] = (RECORDED / "answers" / "sinfo.txt").read_text()
    mocker.patch("subprocess.run", side_effect=slurm)
    mocker.patch("os.getuid", return_value=ALICE)
    return slurm


@pytest.fixture
def clock(mocker: MockerFixture) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    mocker.patch("time.time", side_effect=lambda: clock.now)
    return clock


def test_one_question_serves_all(slurm: Slurm, tmp_path: Path, clock: SimpleNamespace) -> None:
    first = UserQueue({}, tmp_path, 30).jobs()
    clock.now += 29
    assert UserQueue({}, tmp_path, 30).jobs().time == first.time
    assert len(slurm.asked) == 1
    clock.now += 2
    assert UserQueue({}, tmp_path, 30).jobs().time == 1031
    assert len(slurm.asked) == 2
    clock.now += 3
    assert UserQueue({}, tmp_path, 30).jobs(5).time == 1031
    assert UserQueue({}, tmp_path, 30).jobs(2).time == 1034


def test_the_last_answers_are_the_users_alone(slurm: Slurm, tmp_path: Path) -> None:
    """0600 in a folder 0700, whatever the umask."""
    before = os.umask(0)
    try:
        UserQueue({}, tmp_path, 30).jobs()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / ".mnrun").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / ".mnrun" / "slurm.json").stat().st_mode) == 0o600


def test_another_cluster_has_answers_of_its_own(slurm: Slurm, tmp_path: Path) -> None:
    UserQueue({}, tmp_path, 30).jobs()
    UserQueue({"SLURM_CONF": "/etc/other.conf"}, tmp_path, 30).jobs()
    UserQueue({}, tmp_path, 30).jobs()
    assert len(slurm.asked) == 2


def test_each_kind_of_question_is_one(slurm: Slurm, tmp_path: Path) -> None:
    for _ in range(2):
        queue = UserQueue({}, tmp_path, 30)
        queue.jobs()
        queue.nodes()
        queue.history()
        queue.history(["7", "8"])
        queue.history(["8", "7"])
    assert [words[0] for words in slurm.asked] == ["squeue", "sinfo", "sacct", "sacct"]
    assert slurm.asked[2][-2:] == ["-S", "now-7days"]
    assert slurm.asked[3][-2:] == ["-j", "7,8"]


@pytest.mark.parametrize("book", ["", "{", "[]", "[" * 10000, '{"x": 1}', '{"x": {"jobs": {"time": 1}}}'])
def test_a_torn_file_counts_as_nothing(slurm: Slurm, tmp_path: Path, book: str) -> None:
    (tmp_path / ".mnrun").mkdir()
    (tmp_path / ".mnrun" / "slurm.json").write_text(book)
    assert UserQueue({}, tmp_path, 30).jobs().jobs
    assert json.loads((tmp_path / ".mnrun" / "slurm.json").read_text())


@pytest.mark.parametrize("failure", ["text", [], ["one"], [1, 2], {}])
def test_a_kept_failure_that_is_none(slurm: Slurm, tmp_path: Path, failure: object) -> None:
    queue = UserQueue({}, tmp_path, 30)
    queue.jobs()
    file = tmp_path / ".mnrun" / "slurm.json"
    book = json.loads(file.read_text())
    for page in book.values():
        page["jobs"]["failure"] = failure
    file.write_text(json.dumps(book))
    assert queue.jobs().jobs
    assert len(slurm.asked) == 2


def test_a_home_that_cannot_be_written(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / ".mnrun").write_text("a file")
    assert UserQueue({}, tmp_path, 30).jobs().jobs
    UserQueue({}, tmp_path, 30).forget()


def test_a_home_that_is_full(slurm: Slurm, tmp_path: Path) -> None:
    """The answer counts, though it cannot be kept."""
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most[1]))
    try:
        assert UserQueue({}, tmp_path, 30).jobs().jobs
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert (tmp_path / ".mnrun" / "slurm.json").read_text() == ""


def test_what_we_changed_ourselves(slurm: Slurm, tmp_path: Path) -> None:
    queue = UserQueue({}, tmp_path, 30)
    queue.jobs()
    slurm.answers["scancel"] = ""
    assert queue.cancel(["7"]) == []
    queue.jobs()
    assert [words[0] for words in slurm.asked] == ["squeue", "scancel", "squeue"]


def test_a_question_that_was_interrupted_is_no_answer(slurm: Slurm, tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("subprocess.run", side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        UserQueue({}, tmp_path, 30).jobs()
    mocker.patch("subprocess.run", side_effect=slurm)
    assert UserQueue({}, tmp_path, 30).jobs().jobs


def test_slurms_own_variables_do_not_shape_the_answer(slurm: Slurm, tmp_path: Path) -> None:
    given = {"SQUEUE_FORMAT": "%i", "SACCT_FORMAT": "x", "SINFO_PARTITION": "p", "SLURM_CONF": "/s", "PATH": "/bin"}
    UserQueue(given, tmp_path, 30).jobs()
    assert not {"SQUEUE_FORMAT", "SACCT_FORMAT", "SINFO_PARTITION"} & set(slurm.environ)
    assert (slurm.environ["SLURM_CONF"], slurm.environ["PATH"]) == ("/s", "/bin")
    assert slurm.environ["SLURM_TIME_FORMAT"] == "%s"


def test_slurmctld_is_down(refused: Refused, slurm: Slurm, tmp_path: Path, clock: SimpleNamespace) -> None:
    slurm.answers["squeue -a -t all -u 1500 -h -O"] = (1, DOWN)
    for _ in range(2):
        with refused(SchedulerError):
            UserQueue({}, tmp_path, 30).jobs()
        clock.now += 25
    assert len(slurm.asked) == 1


def test_slurmctld_does_not_answer(refused: Refused, tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("subprocess.run", side_effect=subprocess.TimeoutExpired("squeue", 20))
    with refused(SchedulerError):
        UserQueue({}, tmp_path, 30).jobs()


def test_no_slurm_here(refused: Refused, tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("subprocess.run", side_effect=FileNotFoundError)
    with refused(SchedulerError):
        UserQueue({}, tmp_path, 30).jobs()


@pytest.mark.parametrize("said", [(1, "Slurm accounting storage is disabled\n"), (1, "sacct: error: no slurmdbd\n")])
def test_no_accounting(slurm: Slurm, tmp_path: Path, said: tuple[int, str]) -> None:
    slurm.answers["sacct"] = said
    assert UserQueue({}, tmp_path, 30).history() == ()


def test_cancelling(slurm: Slurm, tmp_path: Path) -> None:
    """One call; what has ended is said, what Slurm refuses is an error."""
    slurm.answers["scancel"] = (
        0,
        "scancel: Terminating job 6\n"
        "scancel: error: Kill job error on job id 6: Job/step already completing or completed\n",
    )
    assert UserQueue({}, tmp_path, 30).cancel(["6", "7"]) == ["6"]
    assert slurm.asked == [["scancel", "-v", "6", "7"]]
    slurm.answers["scancel"] = (0, "scancel: error: Kill job error on job id 4711: Invalid job id specified\n")
    with pytest.raises(NotYours) as wrong:
        UserQueue({}, tmp_path, 30).cancel(["4711"])
    assert wrong.value.ids == ("4711",)


def test_sending_a_signal(refused: Refused, slurm: Slurm, tmp_path: Path) -> None:
    slurm.answers["scancel"] = ""
    UserQueue({}, tmp_path, 30).cancel(["6", "7"], "USR1", ["7"])
    assert slurm.asked == [["scancel", "-v", "--batch", "-s", "USR1", "7"], ["scancel", "-v", "-s", "USR1", "6"]]
    slurm.answers["scancel"] = (1, "Unknown job signal: BOGUS\n")
    with refused(UsageError):
        UserQueue({}, tmp_path, 30).cancel(["7"], "BOGUS")
    slurm.answers["scancel"] = (1, "scancel: error: something else\n")
    with refused(SchedulerError):
        UserQueue({}, tmp_path, 30).cancel(["7"])


def pyslurm_job(identity: int) -> SimpleNamespace:
    words = {"name": "x", "partition": "main", "state": "RUNNING", "state_reason": None, "allocated_nodes": "n1"}
    times = {"submit_time": 1, "start_time": 2, "end_time": 3, "num_nodes": 1, "requeue_count": 0, "gres_per_node": {}}
    ends: dict[str, object] = {
        "exit_code": None,
        "exit_code_signal": None,
        "array_id": None,
        "dependencies": {},
        "user_id": ALICE,
    }
    return SimpleNamespace(id=identity, **words, **times, **ends)


@pytest.fixture
def here(mocker: MockerFixture) -> None:
    def call(name: str, ask: Callable[[], object], seconds: float, daemon: str) -> object:
        with suppress(Exception):
            return ask()
        return None

    mocker.patch.object(commands, "call", call)


@pytest.mark.usefixtures("here")
def test_pyslurm_where_it_answers(slurm: Slurm, tmp_path: Path, mocker: MockerFixture) -> None:
    loaded = SimpleNamespace(__spec__="found", Jobs=SimpleNamespace(load=lambda: {7: pyslurm_job(7)}))
    mocker.patch.dict(sys.modules, {"pyslurm": loaded})
    assert [job.id for job in UserQueue({}, tmp_path, 30).jobs().jobs] == ["7"]
    assert slurm.asked == []


@pytest.mark.usefixtures("here")
def test_pyslurm_about_nodes(slurm: Slurm, tmp_path: Path, mocker: MockerFixture) -> None:
    """Partitions and nodes; where it fails, sinfo is asked."""
    loaded = SimpleNamespace(
        __spec__="found",
        Partitions=SimpleNamespace(load=lambda: {"p": SimpleNamespace(name="p", nodes=None)}),
        Nodes=SimpleNamespace(load=dict),
    )
    mocker.patch.dict(sys.modules, {"pyslurm": loaded})
    assert UserQueue({}, tmp_path, 30).nodes() == ()
    assert slurm.asked == []
    loaded.Nodes.load = mocker.Mock(side_effect=RuntimeError("RPC"))
    assert len(UserQueue({}, tmp_path / "other", 30).nodes()) == 2


@pytest.mark.usefixtures("here")
def test_pyslurm_that_does_not_answer(slurm: Slurm, tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch.dict(sys.modules, {"pyslurm": SimpleNamespace(__spec__="found")})
    assert UserQueue({}, tmp_path, 30).jobs().jobs
    assert len(slurm.asked) == 1


def test_pyslurm_is_imported_by_the_child_alone(slurm: Slurm, tmp_path: Path, mocker: MockerFixture) -> None:
    (tmp_path / "pyslurm.py").write_text("raise AssertionError('here')")
    mocker.patch.object(sys, "path", [str(tmp_path)])
    call = mocker.patch.object(commands, "call", return_value=None)
    assert UserQueue({}, tmp_path, 30).jobs().jobs
    assert (len(slurm.asked), call.call_count) == (1, 1)
    with pytest.raises(AssertionError, match="here"):
        call.call_args.args[1]()

"""A job of Grid Engine's, by what 8.1.9 said."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import Impossible, NotYours, UsageError
from mnrun.schedulers import parts
from mnrun.schedulers.sge import cluster
from mnrun.schedulers.sge import scheduler as sge
from mnrun.schedulers.vocabulary import JobState
from unit.schedulers.commands import Commands
from unit.schedulers.sge.test_answers import said

ENVIRON = {"PATH": "/opt/sge/bin"}


@pytest.fixture
def commands(mocker: MockerFixture) -> Commands:
    played = Commands(environ=ENVIRON)  # its programs may come by --module alone
    mocker.patch("subprocess.run", side_effect=played)
    mocker.patch.object(parts, "user", return_value="alice")
    return played


def state(job: str, before_limit: float, mocker: MockerFixture) -> JobState:
    (found,) = [one for one in cluster.answers.queue(said("qstat_r.xml")) if one.id == "1"]
    assert found.end == found.start + 600
    mocker.patch.object(time, "time", return_value=found.end - before_limit)
    return cluster.ending(sge.Site("sge", job), ENVIRON)


@pytest.mark.parametrize(
    ("job", "before_limit", "ending"),
    [
        ("1", 60, JobState.RUNNING),
        ("1", 1, JobState.TIMEOUT),
        ("99", 60, JobState.CANCELLED),
    ],
)
def test_the_state_in_which_a_job_ends(
    commands: Commands, mocker: MockerFixture, job: str, before_limit: float, ending: JobState
) -> None:
    """By the queue and the clock: Grid Engine forgets a job at its end."""
    commands.answers["qstat -r -xml -u alice"] = said("qstat_r.xml")
    assert state(job, before_limit, mocker) == ending
    assert cluster.runs(job, ENVIRON) is (ending == JobState.RUNNING)


def test_without_an_answer_a_job_goes_on(commands: Commands) -> None:
    commands.answers["qstat"] = "!error: unable to contact qmaster"
    assert cluster.runs("27", ENVIRON)
    assert cluster.ending(sge.Site("sge", "27"), ENVIRON) == JobState.UNKNOWN
    assert cluster.time_limit("27", ENVIRON) == ""
    assert cluster.lost(["node01"], ENVIRON) == {}


def test_a_job_asks_the_program_itself_in_place_of_its_wrapper(mocker: MockerFixture, tmp_path: Path) -> None:
    file = tmp_path / "bin/lx-amd64/qstat"
    file.parent.mkdir(parents=True)
    file.touch()
    started = mocker.patch.object(subprocess, "run")
    for mode, executable in {0o644: None, 0o755: str(file)}.items():
        file.chmod(mode)
        cluster.run(("qstat", "-j"), 10, {"SGE_ROOT": str(tmp_path), "SGE_ARCH": "lx-amd64"})
        assert started.call_args.args == (("qstat", "-j"),)
        assert started.call_args.kwargs["executable"] == executable


def test_the_limit_of_a_job(commands: Commands) -> None:
    commands.answers["qstat"] = said("qstat_r.xml")
    assert cluster.time_limit("1", ENVIRON) == "10:00"


@pytest.mark.parametrize(("notify", "warned"), [("true", True), ("false", False)])
def test_a_script_without_notify_is_told(
    commands: Commands, mocker: MockerFixture, tmp_path: Path, notify: str, warned: bool
) -> None:
    (tmp_path / "hosts").write_text(said("pe_hostfile.txt"))
    text = said("qstat_j.xml")
    commands.answers["qstat -j 27"] = text.replace("<JB_notify>true", f"<JB_notify>{notify}")
    commands.answers["qconf -sp mpi-2"] = said("sp.txt").split("\n\n")[0]
    mocker.patch.object(parts, "script_below", return_value="77")
    environ = {"JOB_ID": "27", "SGE_TASK_ID": "undefined", "PE_HOSTFILE": str(tmp_path / "hosts")}
    mocker.patch.dict(ENVIRON, environ)
    allocation, site = cluster.current(ENVIRON)
    assert [(node.name, node.cpus, node.gpus) for node in allocation.nodes] == [("node02", 2, 1), ("node04", 2, 1)]
    assert (site.script, site.channels, allocation.ntasks) == ("27", True, 4)
    assert ("-notify" in allocation.note) is not warned
    commands.answers["qconf -sp mpi-2"] = "control_slaves FALSE\n"
    with pytest.raises(Impossible):
        cluster.current(ENVIRON)


def test_one_question_serves_all(commands: Commands, tmp_path: Path) -> None:
    """Each qstat takes 0.3 s. An array's request is told by qstat -j alone."""
    commands.answers["qstat -r"] = said("qstat.xml")
    commands.answers["qstat -j 24"] = said("qstat_j.xml")
    for _ in range(2):
        found = sge.user_queue(ENVIRON, tmp_path, 30).jobs()
        assert "27" in [job.id for job in found.jobs]
    assert len(commands.asked) == 2


def test_jobs_are_deleted_one_by_one(commands: Commands, tmp_path: Path) -> None:
    queue = sge.user_queue(ENVIRON, tmp_path, 30)
    commands.answers["qdel 27"] = "alice has registered the job 27 for deletion\n"
    commands.answers["qdel 9"] = '!denied: job "9" does not exist\n'
    assert queue.cancel(["27", "9"]) == ["9"]
    commands.answers["qdel 8"] = "!alice - you do not have the necessary privileges to delete the job 8\n"
    with pytest.raises(NotYours):
        queue.cancel(["27", "8"])
    with pytest.raises(UsageError):
        queue.cancel(["27"], "USR1")

"""A job of LSF's, by played answers."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import Impossible, NotYours, SchedulerError, UsageError
from mnrun.jobspec import JobSpec
from mnrun.model import Site
from mnrun.schedulers import parts
from mnrun.schedulers.lsf import scheduler as lsf
from mnrun.schedulers.vocabulary import JobState
from unit.schedulers.lsf.test_answers import BJOBS, NOW
from unit.texts import Refused

INSIDE = {"LSB_JOBID": "22007", "LSB_JOBINDEX": "2", "LSB_MCPU_HOSTS": "node02 2 node01 2", "LSB_JOBNAME": "sweep[2]"}


class Commands:
    """LSF's commands, which answer by their first words, each time with the next answer. `!` begins a refusal."""

    def __init__(self) -> None:
        self.answers: dict[str, list[str]] = {}
        self.asked: list[str] = []

    def __call__(self, argv: tuple[str, ...], **how: object) -> subprocess.CompletedProcess[str]:
        line = " ".join(argv)
        self.asked.append(line)
        told = next(texts for words, texts in self.answers.items() if line.startswith(words))
        text = told.pop(0) if len(told) > 1 else told[0]
        refused = text.startswith("!")
        return subprocess.CompletedProcess(argv, 255 * refused, "" if refused else text, text[1:] if refused else "")

    @property
    def kills(self) -> list[str]:
        return [line for line in self.asked if line.startswith("bkill")]


@pytest.fixture
def commands(mocker: MockerFixture) -> Commands:
    played = Commands()
    mocker.patch("subprocess.run", side_effect=played)
    mocker.patch.object(time, "time", return_value=NOW)
    mocker.patch.object(time, "sleep")
    return played


def test_the_job_around_a_process(mocker: MockerFixture, tmp_path: Path) -> None:
    """LSF counts positions from 1. The first of the nodes is that of the script, whatever its name."""
    mocker.patch.object(parts, "script_below", return_value="77")
    (tmp_path / "lsf.cluster.physics").touch()
    environ = {**INSIDE, "LSF_ENVDIR": str(tmp_path), "MNRUN_JOB_ARRAY": "0+5", "CUDA_VISIBLE_DEVICES": "0,3"}
    allocation, site = lsf.current(environ)
    assert [(node.name, node.cpus, node.gpus) for node in allocation.nodes] == [("node02", 2, 2), ("node01", 2, 2)]
    assert (site.job, site.name, site.script, site.channels) == ("22007.2", "22007_5", "22007_5", True)
    assert allocation.ntasks == 4
    start = lsf.start(environ)
    assert (start.name, start.cluster, start.head, start.restart) == ("sweep", "physics", "node02", 0)
    assert lsf.start({**environ, "LSB_RESTART": "Y"}).restart == 1
    assert lsf.start({**environ, "LSB_INTERACTIVE": "Y"}).script == ""
    assert lsf.current({**environ, "MNRUN_JOB_CPUS": "2"})[0].ntasks == 2
    (tmp_path / "hosts").write_text("node03\nnode03\nnode01\n")
    start = lsf.start({**environ, "LSB_DJOB_HOSTFILE": str(tmp_path / "hosts")})
    assert (start.nodelist, start.head) == ("node[01,03]", "node03")


@pytest.mark.parametrize(
    ("environ", "job"), [({}, ""), (INSIDE, "22007.2"), ({**INSIDE, "LSB_JOBINDEX": "0"}, "22007")]
)
def test_the_id_of_the_job(environ: dict[str, str], job: str) -> None:
    assert lsf.job(environ) == job


def test_lsf_is_where_blaunch_is(tmp_path: Path) -> None:
    """Slurm has wrappers of the names bsub, bjobs and bkill."""
    for program, here in (("bsub", False), ("blaunch", True)):
        (tmp_path / program).touch(mode=0o755)
        assert lsf.is_here({"PATH": str(tmp_path)}) is here


@pytest.mark.parametrize(
    ("job", "later", "state"),
    [
        ("22005", 0, JobState.RUNNING),
        ("22005", 560, JobState.TIMEOUT),
        ("22010", 0, JobState.CANCELLED),
        ("9", 0, JobState.CANCELLED),
    ],
)
def test_the_state_in_which_a_job_ends(
    commands: Commands, mocker: MockerFixture, job: str, later: float, state: JobState
) -> None:
    found = [one for one in lsf.answers.jobs(BJOBS, NOW) if one.id == job]
    mocker.patch.object(lsf.answers, "jobs", return_value=found)
    commands.answers["bjobs"] = [BJOBS if found else f"!Job <{job}> is not found"]
    mocker.patch.object(time, "time", return_value=NOW + later)
    assert lsf.ending(Site("lsf", job), {}) == state


def test_a_task_is_asked_for_by_its_position(commands: Commands) -> None:
    commands.answers["bjobs"] = [BJOBS]
    lsf.runs("22007.2", {})
    assert commands.asked[0].endswith(" 22007[2]")


def test_without_an_answer_a_job_goes_on(commands: Commands) -> None:
    commands.answers["bjobs"] = ["!LSF is down. Please wait ..."]
    assert lsf.runs("22005", {})
    assert lsf.ending(Site("lsf", "22005"), {}) == JobState.UNKNOWN
    assert lsf.time_limit("22005", {}) == ""


def test_a_job_is_handed_in(commands: Commands, refused: Refused) -> None:
    commands.answers["bsub"] = ["Job <806290> is submitted to default queue <normal>.\n"]
    assert lsf.submit("#!/bin/bash\n", JobSpec(), {}) == ("806290", "")
    commands.answers["bsub"] = ["!nosuch: No such queue. Job not submitted.\n"]
    with refused(SchedulerError):
        lsf.submit("#!/bin/bash\n", JobSpec(), {})


def ending(*states: str) -> list[str]:
    """Return the answers of bjobs about a job of these states, one after the other, and none after that."""
    whole = BJOBS.partition('    {\n      "JOBID":"22006"')[0].rstrip().rstrip(",") + "\n  ]\n}\n"
    return [*(whole.replace('"RUN"', f'"{state}"') for state in states), "!Job <22005> is not found"]


@pytest.mark.parametrize(
    ("states", "kills"),
    [
        (["RUN", "RUN"], ["bkill -s TERM 22005", "bkill 22005"]),
        (["PEND"], ["bkill 22005"]),
        ([], []),
    ],
)
def test_a_job_that_runs_gets_time_to_end(
    commands: Commands, tmp_path: Path, states: list[str], kills: list[str]
) -> None:
    commands.answers = {"bjobs": ending(*states), "bkill": ["!Job <22005>: Job has already finished"]}
    ended = lsf.user_queue({}, tmp_path, 30).cancel(["22005"])
    assert (commands.kills, ended) == (kills, [] if states else ["22005"])


def test_a_task_is_ended_by_its_position(commands: Commands, tmp_path: Path) -> None:
    commands.answers = {"bjobs": [BJOBS], "bkill": ["Job <22007[2]> is being terminated"]}
    assert lsf.user_queue({}, tmp_path, 30).cancel(["22007_5"]) == []
    assert commands.kills == ["bkill 22007[2]"]


def test_what_is_not_ended(commands: Commands, tmp_path: Path, refused: Refused) -> None:
    queue = lsf.user_queue({}, tmp_path, 30)
    commands.answers = {"bjobs": ending("PEND", "PEND"), "bkill": ["!Job <22005>: User permission denied"]}
    with refused(NotYours):
        queue.cancel(["22005"])
    commands.answers = {"bjobs": ending("PEND", "PEND"), "bkill": ["!LSF is down. Please wait ..."]}
    with refused(SchedulerError):
        queue.cancel(["22005"])
    with refused(UsageError):
        queue.cancel(["22005"], "USR1")
    with refused(Impossible):
        queue.nodes()

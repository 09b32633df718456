"""Asking the scheduler: what becomes of an answer, of none, and of a refusal."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Callable

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import NoAnswerError, SchedulerError
from mnrun.model import Site, Unwell
from mnrun.planning import layout
from mnrun.schedulers.slurm import cluster, scontrol
from mnrun.schedulers.slurm.details import Details
from mnrun.schedulers.vocabulary import Trace
from unit.cases import Cases
from unit.samples import build, held, recorded
from unit.texts import Refused

JOB = Site("slurm", "7")

Answer = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def slurm(mocker: MockerFixture) -> dict[str, str]:
    """A Slurm that answers each command with a text; one that starts with `!` is its refusal."""
    answers: dict[str, str] = {}

    def run(argv: tuple[str, ...], **how: object) -> subprocess.CompletedProcess[str]:
        assert how["stdin"] == subprocess.DEVNULL, "it would read the program's input"
        assert how["timeout"], "it would hang with slurmctld"
        if argv[0] not in answers:
            raise FileNotFoundError(argv[0])
        said = answers[argv[0]]
        refused = said.startswith("!")
        return subprocess.CompletedProcess(argv, int(refused), "" if refused else said, said[1:] if refused else "")

    mocker.patch("subprocess.run", side_effect=run)
    return answers


def test_the_job_that_we_are_in(slurm: dict[str, str]) -> None:
    said, environ = recorded("gpus_per_task")
    slurm.update({"srun": "slurm-wlm 24.11.5\n", "scontrol": said})
    allocation, site = cluster.current(environ)
    assert [node.name for node in allocation.nodes] == ["node01", "node02"]
    assert site == Site("slurm", "86", Details((24, 11), "--external-launcher"), {"node01": 4, "node02": 1})


def test_a_task_of_an_array_is_called_as_people_type_it(slurm: dict[str, str]) -> None:
    """In what mnrun says of it. Slurm is asked by the task's own number (ux 1)."""
    said, environ = recorded("gpus_per_task")
    slurm.update({"srun": "slurm-wlm 24.11.5\n", "scontrol": said})
    allocation, site = cluster.current({**environ, "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "2"})
    assert (allocation.job, allocation.called, site.job, site.called) == ("86", "12_2", "86", "12_2")
    assert layout.lay_out(build("./app"), allocation).why_nodes == "all of Slurm job 12_2"


def test_a_job_of_which_slurm_knows_nothing(refused: Refused, slurm: dict[str, str]) -> None:
    slurm.update({"srun": "slurm 24.11.5", "scontrol": "!slurm_load_jobs error: Invalid job id specified\n"})
    with refused(SchedulerError):
        cluster.current({"SLURM_JOB_ID": "99"})


def test_a_question_that_does_not_reach_slurm(mocker: MockerFixture) -> None:
    lost = subprocess.CompletedProcess((), 1, "", "scontrol: error: Unable to contact slurm controller\n")
    told = subprocess.CompletedProcess((), 0, "JobId=7 JobState=CANCELLED Restarts=0\n", "")
    mocker.patch("subprocess.run", side_effect=[lost, told])
    assert cluster.ending(JOB, {}) == "CANCELLED"
    run = mocker.patch("subprocess.run", return_value=lost)
    assert cluster.ending(JOB, {}) == "UNKNOWN"
    assert run.call_count == 2


def test_what_is_handed_in(mocker: MockerFixture) -> None:
    done = subprocess.CompletedProcess((), 0, "271;cluster1\n", "sbatch: charged to project x\n")
    run = mocker.patch("subprocess.run", return_value=done)
    environ = {"SLURM_ARRAY_JOB_ID": "9", "SLURM_RESTART_COUNT": "1", "SBATCH_QOS": "x", "SLURM_CONF": "/c", "A": "b"}
    mocker.patch.object(cluster, "version", return_value=(24, 11))
    assert cluster.submit("script", build("./app"), environ) == ("271", "sbatch: charged to project x")
    assert run.call_args.kwargs["env"] == {"SLURM_CONF": "/c", "A": "b"}
    assert run.call_args.kwargs["errors"] == "surrogateescape"


def handed_in(mocker: MockerFixture, done: object) -> object:
    """What submit makes of an sbatch that ends so."""
    mocker.patch("subprocess.run", side_effect=[done])
    mocker.patch.object(cluster, "version", return_value=(24, 11))
    try:
        return cluster.submit("script", build("./app", partition="gpu"), {})
    except SchedulerError as error:
        return type(error), str(error)


PERHAPS = "the job may have been submitted: look at mnrun status before you try again"


def ended(code: int, out: str, err: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess((), code, out, err)


@pytest.mark.parametrize(
    ("done", "found"),
    [
        (ended(1, "271\n", "sbatch: error: later"), ("271", "sbatch: error: later")),
        (ended(0, "a banner\n271;c1\n"), ("271", "")),
        (subprocess.TimeoutExpired("sbatch", 60, b"271\n"), ("271", "sbatch did not answer within 60 s")),
        (subprocess.TimeoutExpired("sbatch", 60), (NoAnswerError, f"sbatch did not answer within 60 s; {PERHAPS}")),
        (
            ended(1, "", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"),
            (
                NoAnswerError,
                f"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation; {PERHAPS}",
            ),
        ),
        (ended(0, "", "sbatch: Job 5 to start at noon"), (SchedulerError, "sbatch: Job 5 to start at noon")),
        (
            ended(1, "", "sbatch: error: The partition\nsbatch: error: is closed"),
            (SchedulerError, "sbatch: The partition; is closed; see --partition (command line)"),
        ),
        (
            FileNotFoundError(),
            (SchedulerError, "sbatch is not on PATH; load Slurm's module, or submit from a login node"),
        ),
    ],
)
def test_what_sbatch_may_answer(mocker: MockerFixture, done: object, found: object) -> None:
    assert handed_in(mocker, done) == found


def test_a_dependency_on_no_job(refused: Refused, mocker: MockerFixture) -> None:
    """sbatch (24.11) names no job. One that may not be waited for has its words."""
    mocker.patch("subprocess.run", side_effect=[ended(1, "", "sbatch: error: Job dependency problem")] * 2)
    mocker.patch.object(cluster, "version", return_value=(24, 11))
    trace = mocker.patch.object(cluster, "trace", side_effect=lambda job: None if job == "9" else Trace(True, ""))
    with refused(SchedulerError):
        cluster.submit("script", build("./app", dependency="afterok:12:9_3"), {})
    assert [call.args for call in trace.call_args_list] == [("12",), ("9",)]
    with refused(SchedulerError):
        cluster.submit("script", build("./app", dependency="afterok:12"), {})


def test_a_scancel_that_hangs(mocker: MockerFixture) -> None:
    mocker.patch("subprocess.run", side_effect=subprocess.TimeoutExpired("scancel", 20))
    cluster.end("7.0", {})


def test_no_slurm_on_path(refused: Refused, slurm: dict[str, str]) -> None:
    with refused(SchedulerError):
        cluster.current({"SLURM_JOB_ID": "7"})


def test_a_slurm_that_does_not_answer(refused: Refused, mocker: MockerFixture) -> None:
    mocker.patch("subprocess.run", side_effect=subprocess.TimeoutExpired("srun", 60))
    with refused(SchedulerError):
        cluster.site({})


def test_a_question_to_nodes_takes_longer(refused: Refused, mocker: MockerFixture) -> None:
    """Than each of its own limits, such as 60 s for the image's container."""
    mocker.patch("subprocess.run", side_effect=subprocess.TimeoutExpired("srun", 150))
    with refused(SchedulerError):
        cluster.on_each(held("node01"), ("node01",), ("true",), {})


@pytest.mark.parametrize(
    ("release", "plugin", "binds"),
    [("20.11", "none", False), ("22.05", "cgroup,task/affinity", True), ("24.11", "none", True)],
)
def test_a_site_on_paper(slurm: dict[str, str], tmp_path: Path, release: str, plugin: str, binds: bool) -> None:
    slurm["srun"] = f"slurm {release}.9"
    (tmp_path / "slurm.conf").write_text(f"ClusterName=c\nTaskPlugin=task/{plugin}\n")
    year, month = map(int, release.split("."))
    site = cluster.site({"SLURM_CONF": str(tmp_path / "slurm.conf")})
    assert site == Site("slurm", "JOB", Details((year, month)), binds=binds)


def test_what_slurm_thinks_of_nodes(slurm: dict[str, str]) -> None:
    slurm["sinfo"] = "node01 mixed\nnode02 down*\nnode03 drained\nnode04 idle*\nnode05 failing\nodd\n"
    assert cluster.lost(["node01", "node02"], {}) == {
        "node02": Unwell("Slurm says down*"),
        "node03": Unwell("Slurm says drained", dead=False),
        "node04": Unwell("Slurm says idle*"),
        "node05": Unwell("Slurm says failing"),
    }


def test_a_reason_is_never_a_second_failure(slurm: dict[str, str]) -> None:
    slurm["sinfo"] = "!cannot contact slurmctld"
    slurm["scontrol"] = "!cannot contact slurmctld"
    assert cluster.lost(["node01"], {}, 0) == {}


def test_nodes_that_were_started_anew(slurm: dict[str, str]) -> None:
    slurm["scontrol"] = (
        "NodeName=node01 Arch=x86_64 BootTime=100 SlurmdStartTime=150 State=IDLE\n"
        "NodeName=node02 Arch=x86_64 BootTime=100 SlurmdStartTime=250 State=IDLE\n"
        "NodeName=node03 BootTime=None SlurmdStartTime=None State=DOWN\n"
    )
    slurm["sinfo"] = ""
    since = time.strftime("%H:%M:%S", time.localtime(250))
    assert cluster.lost(["node01", "node02", "node03"], {}, 200.0) == {"node02": Unwell(f"started anew at {since}")}


def test_how_a_job_ends(cases: Cases, slurm: dict[str, str]) -> None:
    def ending(said: str) -> str:
        slurm["scontrol"] = said
        return cluster.ending(JOB, {})

    cases(ending)


@pytest.mark.parametrize(
    ("said", "limit"),
    [("JobId=7 JobState=TIMEOUT RunTime=00:05:12 TimeLimit=00:05:00", "00:05:00"), ("!Invalid job id specified", "")],
)
def test_the_time_limit(slurm: dict[str, str], said: str, limit: str) -> None:
    slurm["scontrol"] = said
    assert cluster.time_limit("7", {}) == limit


SHOWN = "JobId=7 JobName=x UserId=alice({uid}) JobState={state} {rest}Power="


@pytest.mark.parametrize(
    ("said", "trace"),
    [
        (
            SHOWN.format(uid=os.getuid(), state="FAILED", rest="StdOut=/home/a b/out TRES= "),
            Trace(False, "/home/a b/out"),
        ),
        (f"JobId=7 UserId=alice({os.getuid()}) JobState=TIMEOUT StdOut=/home/a/out ", Trace(False, "/home/a/out")),
        (SHOWN.format(uid=os.getuid(), state="FAILED", rest=""), Trace(False, "")),
        (SHOWN.format(uid=os.getuid(), state="PENDING", rest=""), Trace(True, "")),
        (SHOWN.format(uid=os.getuid() + 1, state="FAILED", rest="StdOut=/x "), Trace(False, "/x", owner="alice")),
        (
            SHOWN.format(uid=os.getuid(), state="FAILED", rest="StdErr=/e StdIn=/dev/null StdOut=/x "),
            Trace(False, "/x", "/e"),
        ),
        (
            f"JobId=9 ArrayJobId=7 ArrayTaskId=0 JobName=x UserId=alice({os.getuid()}) JobState=RUNNING StdOut=/x-9 \n"
            f"JobId=7 ArrayJobId=7 ArrayTaskId=1 JobName=x UserId=alice({os.getuid()}) JobState=RUNNING StdOut=/x-7 ",
            Trace(True, "/x-7", tasks=("7_0", "7_1")),
        ),
        ("!Invalid job id specified", None),
    ],
)
def test_what_slurm_still_knows_of_a_job(slurm: dict[str, str], said: str, trace: Trace | None) -> None:
    slurm["scontrol"] = said
    assert cluster.trace("7") == trace


def test_completing_hides_how_a_job_ends(mocker: MockerFixture) -> None:
    states = iter(["COMPLETING", "COMPLETING", "TIMEOUT"])
    mocker.patch(
        "subprocess.run",
        side_effect=lambda argv, **_: subprocess.CompletedProcess(argv, 0, f"JobState={next(states)}", ""),
    )
    sleep = mocker.patch("time.sleep")
    assert cluster.ending(JOB, {}) == "TIMEOUT"
    assert sleep.call_count == 2


@pytest.mark.parametrize(("signals", "ending"), [(0, "CANCELLED"), (3, "CANCELLED"), (99, "UNKNOWN")])
def test_signals_end_the_question(mocker: MockerFixture, signals: int, ending: str) -> None:
    """Slurm sends a batch job's TERM to the scontrol that is just asking why, and sometimes more than once."""
    codes = iter([*[-15] * signals, 0])
    mocker.patch(
        "subprocess.run",
        side_effect=lambda argv, **_: subprocess.CompletedProcess(argv, next(codes), "JobState=CANCELLED", ""),
    )
    assert cluster.ending(JOB, {}) == ending


@pytest.mark.parametrize(
    ("reason", "ending"), [("TimeLimit", "TIMEOUT"), ("NodeDown", "NODE_FAIL"), ("None", "CANCELLED")]
)
def test_a_job_that_ends_no_sooner_than_we_do(slurm: dict[str, str], reason: str, ending: str) -> None:
    slurm["scontrol"] = f"JobId=7 JobState=COMPLETING Restarts=0 Reason={reason}"
    assert cluster.ending(JOB._replace(inside=True), {}) == ending
    slurm["scontrol"] = f"JobId=7 JobState=COMPLETING Restarts=1 Reason={reason}"
    assert cluster.ending(JOB._replace(inside=True), {}) == "REQUEUED"


@pytest.mark.parametrize(("scripted", "ntasks"), [(True, 64), (False, None)])
def test_a_script_handed_in_from_a_step(scripted: bool, ntasks: int | None) -> None:
    text = "JobId=7 JobState=RUNNING NodeList=n1 Nodes=n1 CPU_IDs=0-3 Mem=0 GRES="
    environ = {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "64"}
    assert scontrol.allocation(text, environ, scripted).ntasks == ntasks


@pytest.mark.parametrize("batch", [False, True])
def test_a_job_that_completes_for_ever(mocker: MockerFixture, batch: bool) -> None:
    """At most 2 s, but for a batch job, which Slurm may start again."""
    text = f"JobState=COMPLETING Reason=TimeLimit Dependency=(null) BatchFlag={int(batch)}"
    done = subprocess.CompletedProcess((), 0, text, "")
    run = mocker.patch("subprocess.run", return_value=done)
    sleep = mocker.patch("time.sleep")
    assert cluster.ending(JOB, {}) == "TIMEOUT"
    waits = [call.args[0] for call in sleep.call_args_list]
    assert waits == sorted((*cluster.ENDING_WAITS, *cluster.REQUEUE_WAITS * batch))  # ever more seldom
    assert run.call_count == len(waits) + 1
    assert (sum(waits) < 2) is not batch


def test_ending_a_step_that_has_ended(mocker: MockerFixture) -> None:
    run = mocker.patch("subprocess.run", return_value=subprocess.CompletedProcess((), 1))
    cluster.end("7.3", {"PATH": "/opt/slurm/bin"})
    assert run.call_args.args == (("scancel", "7.3"),)
    assert run.call_args.kwargs["env"] == {"PATH": "/opt/slurm/bin"}, "Slurm may have come by --module alone"
    assert run.call_args.kwargs["capture_output"]
    assert run.call_args.kwargs["stdin"] == subprocess.DEVNULL
    assert not run.call_args.kwargs["check"]


@pytest.mark.parametrize(("found", "has"), [("/usr/bin/sbatch", True), (None, False)])
def test_a_slurm_site_has_sbatch(mocker: MockerFixture, found: str | None, has: bool) -> None:
    mocker.patch.object(shutil, "which", return_value=found)
    assert cluster.is_here({}) is has


def test_the_clusters_name(mocker: MockerFixture, tmp_path: Path) -> None:
    asked = mocker.patch.object(cluster, "_ask", return_value="Foo = 1\nClusterName             = Asked\nBar = 2\n")
    mocker.patch.object(cluster, "is_here", return_value=True)
    mocker.patch.object(cluster, "CONFIGURATIONS", (str(tmp_path / "none"), str(tmp_path / "slurm.conf")))
    assert cluster.name({"SLURM_CLUSTER_NAME": "given"}) == "given"
    assert cluster.name({}) == "asked"
    (tmp_path / "slurm.conf").write_text("# ClusterName=no\nclustername=Filed # yes\n")
    asked.reset_mock()
    assert cluster.name({}) == "filed"
    (tmp_path / "other.conf").write_text("ClusterName = other\n")
    assert cluster.name({"SLURM_CONF": str(tmp_path / "other.conf")}) == "other"
    asked.assert_not_called()
    mocker.patch.object(cluster, "is_here", return_value=False)
    assert cluster.name({}) == ""


STATES = pytest.mark.parametrize(
    ("state", "goes_on"),
    [
        *(("RUNNING", True), ("SUSPENDED", True), ("SIGNALING", True), ("CONFIGURING", True), ("STOPPED", True)),
        *(("COMPLETING", False), ("PENDING", False)),
    ],
)


@STATES
def test_whether_a_job_goes_on(slurm: dict[str, str], state: str, goes_on: bool) -> None:
    slurm["scontrol"] = f"JobId=7 JobName=a JobState={state} Reason=None"
    assert cluster.runs("7", {}) is goes_on


@pytest.mark.parametrize(("why", "goes_on"), [("Invalid job id specified", False), ("Socket timed out", True)])
def test_a_job_that_slurm_does_not_show(slurm: dict[str, str], why: str, goes_on: bool) -> None:
    """Slurm has forgotten it, or has not answered."""
    slurm["scontrol"] = f"!slurm_load_jobs error: {why}\n"
    assert cluster.runs("7", {}) is goes_on


def of_an_array(state: str) -> str:
    """What Slurm 24.11 says of job 7, which is a task of the array 7, while others of it go on."""
    task = "JobId={} ArrayJobId=7 ArrayTaskId={} JobName=a JobState={} Reason=None PreemptTime={}\n".format
    return task(9, 1, "RUNNING", "None") + task(7, 2, state, "None") + task(8, 0, "RUNNING", "2026-01-01T00:00:00")


@STATES
def test_whether_a_task_goes_on(slurm: dict[str, str], state: str, goes_on: bool) -> None:
    """B8: that of the array's own id, whatever the others do."""
    slurm["scontrol"] = of_an_array(state)
    assert cluster.runs("7", {}) is goes_on


def test_how_a_task_ends(slurm: dict[str, str]) -> None:
    """B8: it is not preempted since another is."""
    slurm["scontrol"] = of_an_array("TIMEOUT")
    assert cluster.ending(JOB, {}) == "TIMEOUT"

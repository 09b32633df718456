"""How a launch ends: the state machine of execute.py, against guards that are only played."""

from __future__ import annotations

import re
import signal
import threading
from ast import literal_eval

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import LaunchError, NodeError, TimeLimit
from mnrun.model import Outcome, Site, Unwell
from mnrun.nodes import kit
from mnrun.running.reasons import job_over
from mnrun.schedulers import SCHEDULERS
from mnrun.schedulers.vocabulary import JobState
from mnrun.system.events import Event, Told
from unit import played
from unit.cases import Cases, given
from unit.played import (
    BYE,
    FOUND,
    RANKS,
    READY,
    Launcher,
    Lease,
    Play,
    Slurm,
    Stage,
    ended,
    noise,
    say,
    signalled,
)
from unit.samples import build, changed, make
from unit.texts import Refused, Says

GROUPS = {"ready": READY, "ranks": RANKS, "bye": BYE}
ENDED = re.compile(r"(run|serve) ended (\d+)")


def events(text: str) -> list[Event]:
    """Return what is heard, of its words in execute_ends.md."""
    found: list[Event] = []
    for node, ready in zip(FOUND, READY):
        text = text.replace(f"{node} is ready", ready)
    for word in filter(None, text.split(", ")):
        if match := ENDED.fullmatch(word):
            found += ended(match[1], int(match[2]))
        elif word.startswith("SIG"):
            found += signalled(signal.Signals[word])
        elif word.startswith(("srun: ", "slurmstepd")):
            found += noise(f"{word}\r")
        else:
            alone = word.startswith(("bye ", "waits ")) and word.count(" ") == 1
            found += say(*GROUPS.get(word, [f"{word} " if alone else word]))
    return found


def test_how_a_launch_ends(cases: Cases, launch: Launcher, stage: Stage, slurm: Slurm) -> None:
    def end(name: str, played: str, around: str) -> str:
        options = given(around)
        lost, _, why = options.get("lost", "").partition(" ")
        slurm.ending, slurm.runs = JobState(options.get("ending", "UNKNOWN")), "over" not in options
        slurm.lost = {lost: Unwell(why)} if lost else {}
        stage.order.clear()
        phases = dict(phase.partition(":")[::2] for phase in filter(None, played.split("; ")))
        stage.play = Play(**{phase: events(said.strip()) for phase, said in phases.items()})
        plan = make(build("./app", mode=options.get("mode", "auto")), 2, 1)
        spec = changed(plan.spec, timeout=literal_eval(options.get("timeout", "120")))
        try:
            outcome = launch.carry_out(plan._replace(spec=spec))
            said = f"{outcome.code}, ranks {dict(outcome.ranks)}"
        except LaunchError as wrong:
            said = f"{type(wrong).__name__}: {wrong}"
        return f"{said}{'; swept' if 'sweep' in stage.order else ''}"

    cases(end)


def test_a_launcher_that_was_stopped(launch: Launcher, stage: Stage, mocker: MockerFixture) -> None:
    mocker.patch("mnrun.system.clock.MOMENT", 20)
    stage.play = Play(kit=say(READY[0]))
    plan = make(build("./app"), 2, 1)
    soon: dict[int, Event] = {4: Told("CONT"), 5: say(READY[1])[0]}
    for second, event in soon.items():
        threading.Timer(second, lambda event=event: stage.events.put(event)).start()
    assert launch.carry_out(plan._replace(spec=changed(plan.spec, timeout=3))).code == 0


def test_the_time_limit_of_a_submitted_job(says: Says) -> None:
    scheduler = SCHEDULERS["local"]
    over = job_over(build("./app")._replace(as_given=True), Site("slurm", "7"), JobState.TIMEOUT, scheduler, {})
    assert isinstance(over, TimeLimit)
    says(over)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_program_runs(launch: Launcher, stage: Stage, signum: int) -> None:
    """The program is told through the lease, has a moment to end by itself, and the code is 128 + n."""
    assert launch(Play(go=say(*RANKS) + signalled(signum))) == Outcome(128 + signum)
    assert stage.lease.lines[-1] == b"end"


@pytest.mark.parametrize(
    ("signum", "said"),
    [
        (signal.SIGINT, "mnrun: interrupted; everything has ended on node[01-02]\n"),
        (signal.SIGTERM, "mnrun: ended by SIGTERM; everything has ended on node[01-02]\n"),
        (signal.SIGHUP, "mnrun: ended by SIGHUP; everything has ended on node[01-02]\n"),
    ],
)
def test_a_signal_is_named(launch: Launcher, capsys: pytest.CaptureFixture[str], signum: int, said: str) -> None:
    """With the nodes on which everything has ended, once each has said so (4.9)."""
    launch(Play(go=say(*RANKS) + signalled(signum)))
    assert capsys.readouterr().err == said
    launch(Play(go=say(*RANKS) + signalled(signum), close=say(BYE[0], "bye node02 4711")))
    assert capsys.readouterr().err.endswith(said.partition(";")[0] + "\n")


@pytest.mark.parametrize(("scheduler", "signum"), [("slurm", signal.SIGUSR1), ("local", signal.SIGTERM)])
def test_a_head_that_nobody_needs_is_told(
    launch: Launcher, stage: Stage, mocker: MockerFixture, scheduler: str, signum: int
) -> None:
    mocker.patch.object(played, "SITE", played.SITE._replace(scheduler=scheduler))
    mocker.patch("mnrun.running.execute.FAREWELL", 10)
    with pytest.raises(NodeError):
        launch(Play(kit=say(READY[0], "fail node02 x")))
    assert stage.started["run"].signals == [signum, signal.SIGKILL]


def test_a_program_that_does_not_end_is_killed(launch: Launcher, stage: Stage) -> None:
    assert launch(Play(go=say(*RANKS) + signalled(signal.SIGTERM), term=[])) == Outcome(143)
    assert stage.started["run"].signals == [signal.SIGKILL]


def test_ctrl_c_twice_does_not_wait(launch: Launcher, stage: Stage) -> None:
    play = Play(go=say(*RANKS) + signalled(signal.SIGINT, signal.SIGINT), term=[])
    assert launch(play) == Outcome(130)
    assert stage.lease.lines[-1] == b"end"
    assert stage.lease.closed


def test_a_signal_before_all_are_ready(launch: Launcher, stage: Stage) -> None:
    assert launch(Play(kit=say(READY[0]) + signalled(signal.SIGTERM))) == Outcome(143)
    assert b"end" not in stage.lease.lines
    assert b"go" not in stage.lease.lines


@pytest.mark.parametrize(("scheduler", "step", "lines"), [("slurm", False, 0), ("slurm", True, 1), ("local", False, 1)])
def test_a_signal_for_the_program(
    launch: Launcher, stage: Stage, mocker: MockerFixture, scheduler: str, step: bool, lines: int
) -> None:
    told: list[Event] = [Told("USR1")]
    mocker.patch.object(played, "SITE", played.SITE._replace(scheduler=scheduler, step=step))
    play = Play(kit=told + say(*READY), go=say(*RANKS) + told + ended("run", 0))
    assert launch(play).code == 0
    assert stage.lease.lines.count(b"signal USR1") == lines


def test_a_node_that_says_no_farewell(
    launch: Launcher, stage: Stage, slurm: Slurm, capsys: pytest.CaptureFixture[str], says: Says
) -> None:
    assert launch(Play(close=say(BYE[0]))) == Outcome(0, FOUND)
    assert slurm.ended_steps == ["7.3"]
    assert stage.started["serve"].signals == [signal.SIGKILL]
    says(capsys.readouterr().err)


def test_scheduler_is_asked_after_the_lease_is_closed(
    launch: Launcher, stage: Stage, slurm: Slurm, mocker: MockerFixture
) -> None:
    closed: list[bool] = []

    def noting(answer: object) -> object:
        closed.append(stage.lease.closed)
        return answer

    mocker.patch("mnrun.schedulers.slurm.scheduler.ending", side_effect=lambda *_: noting(slurm.ending))
    mocker.patch("mnrun.schedulers.slurm.scheduler.lost", side_effect=lambda *_: noting(slurm.lost))
    for play in (
        Play(go=say(*RANKS) + ended("serve", 143), close=[]),
        Play(kit=say("fail node01 no image", READY[1]), close=[]),
        Play(go=say(*RANKS, "gone node01 9"), close=[]),
    ):
        with pytest.raises(LaunchError):
            launch(play)
    assert closed, "nobody was asked"
    assert all(closed)


def test_guards_that_were_killed_are_swept_after(launch: Launcher, stage: Stage, slurm: Slurm) -> None:
    with pytest.raises(NodeError):
        launch(Play(go=say(*RANKS) + ended("serve", 137), close=[]))
    assert stage.order == ["serve", "run", "sweep"]
    assert stage.argv["sweep"][-7:] == (
        "bash",
        "--norc",
        "-p",
        "-c",
        kit.spoken("into.sh"),
        "/tmp/mnrun.7-abcdef",
        "stop.sh",
    )
    sweep = stage.started["sweep"].played
    assert sweep.stdin is not None
    assert sweep.stdin.closed
    assert sweep.waited
    assert slurm.ended_steps == []


def test_nothing_is_swept_where_everyone_said_farewell(launch: Launcher, stage: Stage, slurm: Slurm) -> None:
    launch(Play())
    assert stage.order == ["serve", "run"]
    assert slurm.ended_steps == []
    assert stage.argv["serve"][0] == "srun"


def test_processes_that_could_not_be_ended_are_named(launch: Launcher, capsys: pytest.CaptureFixture[str]) -> None:
    launch(Play(close=say(BYE[0], "bye node02 17 18 ") + ended("serve", 0)))
    said = "mnrun: warning: on node02 these processes could not be ended: 17 18\n"
    assert capsys.readouterr().err == said


def test_a_lease_whose_reader_is_gone(refused: Refused, launch: Launcher, stage: Stage, mocker: MockerFixture) -> None:
    """srun ended while we wrote: its end, with the reason, is on its way to us."""

    def broken(lease: Lease, data: memoryview) -> int:
        lease._hear(noise("srun: error: no") + ended("serve", 1))
        raise BrokenPipeError

    mocker.patch.object(Lease, "write", broken)
    with refused(NodeError):
        launch(Play(close=[]))


def test_a_prompt_is_hung_up(launch: Launcher, stage: Stage) -> None:
    stage.play = Play(go=signalled(signal.SIGTERM))
    assert launch.carry_out(make(build(shell="terminal"), 2, 1)) == Outcome(143)
    assert stage.started["run"].signals[0] == signal.SIGHUP
    assert b"end" not in stage.lease.lines


def test_a_bug_of_ours_still_closes_the_lease(launch: Launcher, stage: Stage, mocker: MockerFixture) -> None:
    mocker.patch.object(kit, "launch_files", side_effect=RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        launch(Play())
    assert stage.lease.closed


AFTER = ["daemons node01 srun: error: node02: task 0: Exited with exit code 255"]
KILLED = [*AFTER, "daemons node01 srun: error: node[03-04]: tasks 1-2: Killed"]


def test_daemons_of_mpirun_that_were_killed(launch: Launcher, refused: Refused) -> None:
    """PRRTE 3 ends with 0 then. mpirun's own code counts more. Daemons may also fail after an end that went well."""

    def ends(code: int, lines: list[str]) -> Outcome:
        return launch(Play(go=say(*RANKS, *lines) + ended("run", code)), mode="outside-in", launcher="mpirun")

    with refused(NodeError):
        ends(0, KILLED)
    assert (ends(3, KILLED).code, ends(0, AFTER).code) == (3, 0)
    assert ends(0, AFTER).doubted and not ends(0, []).doubted

"""A launch whose nodes or ranks do not come: the limits of its phases, and an end of the job before they are there."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import DeadlineError, NodeError
from mnrun.system.process import Event
from unit.played import BYE, RANKS, READY, Launcher, Play, Slurm, Stage, ended, noise, say
from unit.samples import build, changed, make


def test_what_slow_containers_have_said(launch: Launcher, stage: Stage) -> None:
    """At the deadline their guards are asked for it."""
    here = say("here node01", "here node02", READY[0])
    answers = ("log node02 Server cannot bind", "waits node01 ", "waits node02 sleep 9 (hrtimer_nanosleep)")
    stage.play = Play(kit=here, log=say(*answers))
    plan = make(build("./app"), 2, 1)
    said = r"node02: not ready yet \(Server cannot bind\), waits for sleep 9 \(hrtimer_nanosleep\); .* phase container$"
    with pytest.raises(DeadlineError, match=rf"^1 of 2 nodes not ready after 0 s: {said}"):
        launch.carry_out(replace(plan, spec=changed(plan.spec, timeout=0)))


def test_a_launcher_that_was_stopped(launch: Launcher, stage: Stage, mocker: MockerFixture) -> None:
    """Ctrl-Z and fg: the time limit begins anew, also where the wait ends before SIGCONT is handled."""
    mocker.patch("mnrun.system.clock.MOMENT", 2)
    stage.play = Play(kit=say(READY[0]))
    plan = make(build("./app"), 2, 1)
    soon: dict[int, Event] = {2: ("told", "CONT", ""), 3: say(READY[1])[0]}
    for second, event in soon.items():
        threading.Timer(second, lambda event=event: stage.events.put(event)).start()
    assert launch.carry_out(replace(plan, spec=changed(plan.spec, timeout=1.5))).code == 0


def test_a_node_that_fails_before_all_are_ready(launch: Launcher, stage: Stage, slurm: Slurm) -> None:
    """Slurm warns the guards of the other nodes, which must clean up before it kills them."""
    slurm.ending, slurm.runs, slurm.thoughts = "NODE_FAIL", False, {"node02": "down*"}
    stage.play = Play(kit=say(READY[0], "warned node01"))
    with pytest.raises(NodeError, match=r"^lost while the job ran: node02: Slurm says down\*; leave it out with "):
        launch.carry_out(make(build("./app"), 2, 1))


def test_ranks_that_do_not_come(launch: Launcher, stage: Stage) -> None:
    """An mpirun that hangs holds nobody longer than nodes may."""
    ready = say("here node01", "here node02", *READY)
    stage.play = Play(kit=ready, go=say("rank node01 0 3"), log=say("waits node01 ssh node02 (poll)", "waits node02 "))
    plan = make(build("./app"), 2, 1)
    late = r"^2 of 3 ranks, of node\[01-02\], not started 0\.2 s after all nodes were ready: "
    with pytest.raises(DeadlineError, match=late + r"node01: waits for ssh node02 \(poll\); .* phase ranks$"):
        launch.carry_out(replace(plan, spec=changed(plan.spec, timeout=0.2)))


def test_a_guard_that_does_not_answer(launch: Launcher, stage: Stage) -> None:
    """A file system that hangs holds a guard too: that is said, and nobody waits for its answer for long."""
    stage.play = Play(kit=say("here node01", "here node02", READY[0]), log=say("waits node01 "))
    plan = make(build("./app"), 2, 1)
    with pytest.raises(DeadlineError, match=r"node02: not ready yet, and its guard does not answer, as where a file"):
        launch.carry_out(replace(plan, spec=changed(plan.spec, timeout=0)))


def test_a_program_that_ends_while_its_ranks_are_missed(launch: Launcher, stage: Stage) -> None:
    """Its own end counts, although the deadline was over."""
    answer = [*say(*RANKS), *ended("run", 7), *say("waits node01 ", "waits node02 ")]
    stage.play = Play(kit=say("here node01", "here node02", *READY), go=[], log=answer)
    plan = make(build("./app"), 2, 1)
    assert launch.carry_out(replace(plan, spec=changed(plan.spec, timeout=0.1))).code == 7


def test_silence_until_the_deadline(launch: Launcher, stage: Stage, slurm: Slurm) -> None:
    """The missing nodes by name, with what Slurm thinks of them, what srun said, and how to wait longer."""
    slurm.thoughts = {"node02": "down*"}
    stage.play = Play(kit=say(READY[0]) + noise("srun: warning: slow"))
    plan = make(build("./app"), 2, 1)
    with pytest.raises(DeadlineError) as wrong:
        launch.carry_out(replace(plan, spec=changed(plan.spec, timeout=0)))
    assert str(wrong.value) == (
        "1 of 2 nodes not ready after 0 s: node02: no answer from it (Slurm says down*) (srun: warning: slow); "
        "--start-timeout allows more time for the phase reach; or leave it out with --exclude node02"
    )


def test_a_guard_that_is_killed(launch: Launcher, stage: Stage, slurm: Slurm) -> None:
    """srun says so, and nobody waits for the time limit. While a program runs, its own end counts if that comes."""
    killed = "srun: error: node02: task 1: Killed"
    stage.play = Play(kit=say("here node01", "here node02", READY[0]) + noise(killed))
    with pytest.raises(NodeError, match=r"^1 of 2 nodes not ready: node02: its guard was killed"):
        launch.carry_out(make(build("./app"), 2, 1))
    slurm.thoughts = {"node01": "down*"}  # Slurm kills the guards of the others
    stage.play = Play(kit=say("here node01", "here node02") + noise(killed) + ended("serve", 137))
    lost = r"^1 of 2 nodes not ready: node01: no answer from it any more \(Slurm says down\*\)"
    with pytest.raises(NodeError, match=lost):
        launch.carry_out(make(build("./app"), 2, 1))
    slurm.thoughts = {}
    stage.play = Play(go=noise(killed) + say(*RANKS) + ended("run", 0))
    assert launch.carry_out(make(build("./app"), 2, 1)).code == 0
    stage.play = Play(go=noise(killed) + say(*RANKS), close=say(BYE[0]) + ended("serve", 137))
    with pytest.raises(NodeError, match=r"^node02: its guard was killed; look there for what kills processes"):
        launch.carry_out(make(build("./app"), 2, 1))
    assert stage.order[-1] == "sweep"


def test_a_node_on_which_srun_cannot_start_a_guard(launch: Launcher, stage: Stage) -> None:
    """srun then ends those of the other nodes, and that is no reason."""
    refused = "srun: error: Task launch for StepId=7.0 failed on node node02: Communication connection failure"
    stage.play = Play(
        kit=say("here node01") + noise(refused, "srun: error: node01: task 0: Killed") + ended("serve", 137)
    )
    with pytest.raises(
        NodeError, match=r"^1 of 2 nodes not ready: node02: no answer from it \(srun: error: Task "
    ) as why:
        launch.carry_out(make(build("./app"), 2, 1))
    assert "dmesg" not in str(why.value)


def test_guards_that_are_killed_with_their_step(launch: Launcher, stage: Stage) -> None:
    """Where Slurm holds steps in control groups their undertakers are killed, too: a step of its own cleans up."""
    with pytest.raises(NodeError, match=r"^2 of 2 nodes not ready"):
        launch(Play(kit=say("here node01", "here node02") + ended("serve", 137), close=[]))
    assert stage.order == ["serve", "run", "sweep"]

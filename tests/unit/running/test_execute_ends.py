"""How a launch ends: the state machine of execute.py, against guards that are only played."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest
from pytest_mock import MockerFixture

from mnrun.errors import DeadlineError, JobEnded, LaunchError, NodeError, RuntimeFailed
from mnrun.model import Outcome, Site
from mnrun.nodes import kit
from mnrun.running.reasons import job_over
from mnrun.schedulers import SCHEDULERS
from mnrun.system.process import Event
from unit import played
from unit.played import BYE, FOUND, RANKS, READY, Launcher, Lease, Play, Slurm, Stage, ended, noise, say, signalled
from unit.samples import build, make

# what is played -> the outcome, or the failure with its whole line
ENDS: dict[str, tuple[Play, Outcome | LaunchError]] = {
    "all is well": (Play(), Outcome(0, FOUND)),
    "the program's own code": (Play(go=say(*RANKS) + ended("run", 7)), Outcome(7, FOUND)),
    "a rank that was killed": (Play(go=say(*RANKS) + ended("run", 137)), Outcome(137, FOUND)),
    "a program that fails before its ranks": (Play(go=ended("run", 127)), Outcome(127, {})),
    "ranks that speak late": (
        Play(go=ended("run", 0), close=say(*RANKS, *BYE) + ended("serve", 0)),
        Outcome(0, FOUND),
    ),
    "a node without ranks": (
        Play(go=say("rank node01 0 2", "rank node01 1 2") + ended("run", 0)),
        NodeError(
            "ranks started on node01 x 2, but node01 x 2, node02 x 1 was asked for",
            "mpirun used other hosts or slots: look for settings in the image (openmpi-mca-params.conf)",
        ),
    ),
    "no ranks at all": (
        Play(go=ended("run", 0)),
        NodeError(
            "ranks started on no node, but node01 x 2, node02 x 1 was asked for",
            "mpirun used other hosts or slots: look for settings in the image (openmpi-mca-params.conf)",
        ),
    ),
    "ranks that took themselves for the only one": (
        Play(close=say("alone node01 1", "alone node02 2", *BYE) + ended("serve", 0)),
        RuntimeFailed(
            "2 of 3 ranks ran as rank 0 of 1",
            "the image's MPI and the starter do not match: try --mode inside-out, or another --mpi",
        ),
    ),
    "ranks that miscount": (
        Play(go=say("rank node01 0 1", "rank node01 1 1", "rank node02 2 1") + ended("run", 0)),
        RuntimeFailed("ranks counted 1 in all, not 3"),
    ),
    "a node that cannot take part": (
        Play(kit=say(READY[0], "fail node02 the image /app.sif is not there")),
        NodeError("1 of 2 nodes not ready: node02: the image /app.sif is not there"),
    ),
    "image files that differ": (
        Play(kit=say(*(f"{line} image={n}.7" for n, line in enumerate(READY, 1)))),
        NodeError(
            "/home/alice/run/app.sif is not the same on all nodes: "
            "node01: 1 bytes, header 7; node02: 2 bytes, header 7",
            "copy one of them to all, or name one that all nodes see",
        ),
    ),
    "image files that are the same": (Play(kit=say(*(f"{line} image=1.7" for line in READY))), Outcome(0, FOUND)),
    "two nodes with one reason": (
        Play(kit=say("fail node01 no apptainer", "fail node02 no apptainer")),
        NodeError("2 of 2 nodes not ready: node[01-02]: no apptainer"),
    ),
    "a container that ends at once": (
        Play(kit=say(READY[0], "log node02 FATAL: no such image", "gone node02 255")),
        NodeError("1 of 2 nodes not ready: node02: its container ended with 255 (FATAL: no such image)"),
    ),
    "one fails, one is silent": (
        Play(kit=say("fail node01 no apptainer")),
        NodeError("2 of 2 nodes not ready: node01: no apptainer; node02: no answer from it"),
    ),
    "one fails, one is late": (
        Play(kit=say("fail node01 no apptainer", READY[1])),
        NodeError("1 of 2 nodes not ready: node01: no apptainer"),
    ),
    "a serving step that never begins": (
        Play(kit=noise("srun: error: Unable to create step") + ended("serve", 1), close=[]),
        NodeError("2 of 2 nodes not ready: node[01-02]: no answer from it (srun: error: Unable to create step)"),
    ),
    "a program that ends before go": (
        Play(kit=say(READY[0]) + ended("run", 1)),
        NodeError("1 of 2 nodes not ready: node02: no answer from it"),
    ),
    "an image that does not suit the starter": (
        Play(go=say("rank node01 0 1", "fail node01 the image has MPICH") + ended("run", 1)),
        RuntimeFailed("node01: the image has MPICH"),
    ),
    "a failure that is told after the end": (
        Play(go=ended("run", 1), close=say("fail node01 sshd ended", *BYE) + ended("serve", 0)),
        RuntimeFailed("node01: sshd ended"),
    ),
    "a container that ends while the program runs": (
        Play(go=say(*RANKS, "log node02 oom", "gone node02 137")),
        NodeError("node02: its container ended with 137 (oom)"),
    ),
    "ranks that srun ended because one failed": (
        Play(go=say(*RANKS, "ended node01 0 143 told", "ended node02 2 9") + ended("run", 143)),
        Outcome(9, FOUND),
    ),
    "a node that is silent after a failure": (
        Play(go=say(*RANKS) + ended("run", 1), close=say(BYE[0])),
        NodeError("node02: lost while the job ran"),
    ),
    "a serving step that is killed": (
        Play(go=say(*RANKS) + noise("srun: error: slurmd gone\r") + ended("serve", 137), close=[]),
        NodeError("the step with the containers ended while the program ran (srun: error: slurmd gone)"),
    ),
    "a serving step that is killed without a word": (
        Play(go=ended("serve", 137), close=[]),
        NodeError("the srun that serves the nodes was killed by signal 9 (KILL)"),
    ),
    "a guard that is killed with its step": (
        Play(go=noise("srun: error: node02: task 1: Killed") + ended("serve", 137), close=[]),
        NodeError(
            "node02: its guard was killed (srun: error: node02: task 1: Killed)",
            "look there for what kills processes: the kernel (dmesg), an administrator, a clean-up script",
        ),
    ),
    "an srun that is killed before the nodes are ready": (
        Play(kit=say("here node01", "here node02") + ended("serve", 137), close=[]),
        NodeError("2 of 2 nodes not ready: the srun that serves the nodes was killed by signal 9 (KILL)"),
    ),
    "a program that ends as its serving step is killed": (
        Play(go=say(*RANKS) + ended("run", 143) + ended("serve", 143), close=[]),
        NodeError("the step with the containers ended while the program ran (without a message)"),
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_how_a_launch_ends(launch: Launcher, end: str) -> None:
    """The program's code where all is well; else one line that says which node, and why."""
    play, expected = ENDS[end]
    if isinstance(expected, Outcome):
        assert launch(play) == expected
        return
    with pytest.raises(LaunchError) as wrong:
        launch(play)
    assert (type(wrong.value), str(wrong.value)) == (type(expected), str(expected))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("CANCELLED", JobEnded("job 7 was cancelled")),
        ("TIMEOUT", DeadlineError("job 7 reached its time limit of 00:05:00", "ask for more with --time")),
        ("NODE_FAIL", NodeError("a node of job 7 failed")),
        ("RUNNING", NodeError("the step with the containers ended while the program ran (without a message)")),
        ("", NodeError("the step with the containers ended while the program ran (without a message)")),
    ],
)
@pytest.mark.parametrize("program", [[], ended("run", 143)], ids=["it runs", "it has ended"])
def test_a_job_that_ends_under_us(
    launch: Launcher, slurm: Slurm, state: str, expected: LaunchError, program: list[Event]
) -> None:
    """scancel and the time limit end the serving step with the rest: Slurm is asked which it was."""
    slurm.ending = state
    with pytest.raises(LaunchError) as wrong:
        launch(Play(go=program + ended("serve", 143), close=[]))
    assert (type(wrong.value), str(wrong.value)) == (type(expected), str(expected))


@pytest.mark.parametrize("heard", [[], say("gone node02 143"), say("fail node01 sshd ended")])
def test_a_job_that_ends_before_its_nodes_are_ready(launch: Launcher, slurm: Slurm, heard: list[Event]) -> None:
    """What the nodes tell is its consequence."""
    slurm.ending = "CANCELLED"
    with pytest.raises(JobEnded, match=r"^job 7 was cancelled$"):
        launch(Play(kit=heard + ended("serve", 143), close=[]))


def test_the_time_limit_of_a_submitted_job() -> None:
    """The remedy is the verb by which it was submitted."""
    scheduler = SCHEDULERS["local"]
    over = job_over(replace(build("./app"), as_given=True), Site("slurm", "7"), "TIMEOUT", scheduler)
    assert str(over) == "job 7 reached its time limit; ask for more with mnrun submit --time"


WARNED = say(*RANKS, "warned node01", "warned node02")


@pytest.mark.parametrize("then", [[], say("fail node02 sshd ended"), say("gone node02 1"), ended("run", 143)])
def test_a_term_that_ends_the_job(launch: Launcher, slurm: Slurm, then: list[Event]) -> None:
    """scancel tells every process: what else is heard is only its consequence."""
    slurm.ending, slurm.runs = "CANCELLED", False
    with pytest.raises(JobEnded, match=r"^job 7 was cancelled$"):
        launch(Play(go=WARNED + then))


def test_a_term_that_is_a_warning(launch: Launcher) -> None:
    """--signal=TERM@60, or a preemption with a time of grace: the program may make use of it."""
    assert launch(Play(go=WARNED + ended("run", 0))) == Outcome(0, FOUND)
    assert launch(Play(go=WARNED + ended("run", 15))) == Outcome(15, FOUND)


def test_a_node_that_slurm_has_lost(launch: Launcher, slurm: Slurm) -> None:
    """By its name, with Slurm's word for it."""
    slurm.ending, slurm.thoughts = "NODE_FAIL", {"node02": "down*"}
    with pytest.raises(NodeError, match=r"^lost while the job ran: node02: Slurm says down\*; leave it out with "):
        launch(Play(go=say(*RANKS) + ended("serve", 143), close=[]))


def test_a_program_that_leaves_with_0_as_its_node_is_lost(launch: Launcher, slurm: Slurm) -> None:
    """mpirun may be ended before anybody else is told; and what has ended well while the job goes on, counts."""
    play = Play(close=say(BYE[0]))
    assert launch(play) == Outcome(0, FOUND)
    slurm.ending, slurm.runs, slurm.thoughts = "NODE_FAIL", False, {"node02": "down*"}
    with pytest.raises(NodeError, match=r"^lost while the job ran: node02: Slurm says down\*; leave it out with "):
        launch(play)


def test_a_node_that_was_started_anew(launch: Launcher, stage: Stage, slurm: Slurm) -> None:
    """Slurm ends the step on the nodes that are well: no guard of theirs was killed by anybody else (4.2)."""
    slurm.anew = {"node02": "02:44:25"}
    words = "slurmstepd-node01: error: *** STEP 7.0 ON node01 CANCELLED AT 2026-11-27T02:44:25 ***"
    killed = "srun: error: node01: task 0: Killed"
    for play in (
        Play(go=say(*RANKS) + noise(words, killed) + ended("serve", 137), close=[]),
        Play(close=say(BYE[0])),  # mpirun may exit with 0 as it loses a node
    ):
        with pytest.raises(NodeError) as raised:
            launch(play)
        line = "lost while the job ran: node02: started anew at 02:44:25; leave it out with --exclude node02"
        assert str(raised.value) == line
    slurm.anew = {}
    with pytest.raises(NodeError, match=r"^the step with the containers ended while the program ran \(slurmstepd"):
        launch(Play(go=say(*RANKS) + noise(words, killed) + ended("serve", 137), close=[]))


@pytest.mark.parametrize("first", ["node01", "node02"])
def test_a_node_that_failed_by_srun(launch: Launcher, first: str) -> None:
    words = f"srun: error: Node failure on {first}"
    with pytest.raises(NodeError, match=rf"^lost while the job ran: {first}; leave it out with --exclude {first}"):
        launch(Play(go=say(*RANKS) + noise(words) + ended("serve", 143), close=[]))


def test_a_program_that_slurm_ends_before_it_warns(launch: Launcher, slurm: Slurm) -> None:
    """Outside-in, the program is a step of Slurm's own: its code is not the reason where the job is over."""
    play = Play(go=say(*RANKS) + ended("run", 250))
    assert launch(play, mode="outside-in") == Outcome(250, FOUND)
    slurm.ending, slurm.runs = "TIMEOUT", False
    with pytest.raises(DeadlineError, match=r"^job 7 reached its time limit of 00:05:00"):
        launch(play, mode="outside-in")


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


@pytest.mark.parametrize(("ending", "code"), [("CANCELLED", 143), ("TIMEOUT", 124)])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_because_the_job_is_over(
    launch: Launcher, stage: Stage, slurm: Slurm, signum: int, ending: str, code: int
) -> None:
    """Slurm's TERM to a batch script and salloc's HUP to its prompt: the job's own end is the reason."""
    slurm.ending = ending
    with pytest.raises(LaunchError, match=r"^job 7 (was cancelled|reached its time limit)") as wrong:
        launch(Play(go=say(*RANKS) + signalled(signum)))
    assert wrong.value.code == code
    assert stage.lease.closed


def test_ctrl_c_asks_nobody(launch: Launcher, slurm: Slurm) -> None:
    """Its reason is known, also where the job ends at the same time."""
    slurm.ending = "CANCELLED"
    assert launch(Play(go=say(*RANKS) + signalled(signal.SIGINT))) == Outcome(130)


@pytest.mark.parametrize(("scheduler", "signum"), [("slurm", signal.SIGUSR1), ("local", signal.SIGTERM)])
def test_a_head_that_nobody_needs_is_told(
    launch: Launcher, stage: Stage, mocker: MockerFixture, scheduler: str, signum: int
) -> None:
    """Its task may start after the guard of its node has ended and removed everything: it would wait for ever."""
    mocker.patch.object(played, "SITE", replace(played.SITE, scheduler=scheduler))
    mocker.patch("mnrun.running.execute.FAREWELL", 10)
    with pytest.raises(NodeError):
        launch(Play(kit=say(READY[0], "fail node02 x")))
    assert stage.started["run"].signals == [signum, signal.SIGKILL]


def test_a_program_that_does_not_end_is_killed(launch: Launcher, stage: Stage) -> None:
    """After its moment, and after the guards had theirs."""
    assert launch(Play(go=say(*RANKS) + signalled(signal.SIGTERM), term=[])) == Outcome(143)
    assert stage.started["run"].signals == [signal.SIGKILL]


def test_ctrl_c_twice_does_not_wait(launch: Launcher, stage: Stage) -> None:
    """The second one: at once, then; the lease is closed all the same."""
    play = Play(go=say(*RANKS) + signalled(signal.SIGINT, signal.SIGINT), term=[])
    assert launch(play) == Outcome(130)
    assert stage.lease.lines[-1] == b"end"
    assert stage.lease.closed


def test_ctrl_c_again_and_again_while_stopping(launch: Launcher) -> None:
    """We are stopping: the farewell is waited for."""
    interrupts = signalled(*[signal.SIGINT] * 5)
    play = Play(go=signalled(signal.SIGINT), term=interrupts, close=interrupts + say(*BYE) + ended("serve", 0))
    assert launch(play) == Outcome(130)


def test_a_signal_before_all_are_ready(launch: Launcher, stage: Stage) -> None:
    """Nobody runs yet who could be told; the lease's end is enough."""
    assert launch(Play(kit=say(READY[0]) + signalled(signal.SIGTERM))) == Outcome(143)
    assert b"end" not in stage.lease.lines
    assert b"go" not in stage.lease.lines


@pytest.mark.parametrize(("scheduler", "step", "lines"), [("slurm", False, 0), ("slurm", True, 1), ("local", False, 1)])
def test_a_signal_for_the_program(
    launch: Launcher, stage: Stage, mocker: MockerFixture, scheduler: str, step: bool, lines: int
) -> None:
    """Slurm's guards hear it themselves; elsewhere, and as a task of a step, we alone pass it on."""
    told: list[Event] = [("told", "USR1", "")]
    mocker.patch.object(played, "SITE", replace(played.SITE, scheduler=scheduler, step=step))
    play = Play(kit=told + say(*READY), go=say(*RANKS) + told + ended("run", 0))
    assert launch(play).code == 0
    assert stage.lease.lines.count(b"signal USR1") == lines


def test_a_signal_is_no_judgement(launch: Launcher) -> None:
    """Ranks that are missing because we stopped them are no failure of their own."""
    assert launch(Play(go=say(RANKS[0]) + signalled(signal.SIGTERM), term=ended("run", 0))) == Outcome(143)


def test_a_node_that_says_no_farewell(
    launch: Launcher, stage: Stage, slurm: Slurm, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was cut off: Slurm ends the step there once it can, and the user is told."""
    assert launch(Play(close=say(BYE[0]))) == Outcome(0, FOUND)
    assert slurm.ended_steps == ["7.3"]
    assert stage.started["serve"].signals == [signal.SIGKILL]
    assert capsys.readouterr().err == (
        "mnrun: warning: no final report from node02: Slurm ends what is left there once it can\n"
    )


def test_scheduler_is_asked_after_the_lease_is_closed(
    launch: Launcher, stage: Stage, slurm: Slurm, mocker: MockerFixture
) -> None:
    """Nothing comes before the lease's end: no question why the job ends, nor what Slurm thinks of a node."""
    closed: list[bool] = []

    def noting(answer: object) -> object:
        closed.append(stage.lease.closed)
        return answer

    mocker.patch("mnrun.schedulers.slurm.ending", side_effect=lambda site: noting(slurm.ending))
    mocker.patch("mnrun.schedulers.slurm.why_down", side_effect=lambda names: noting(slurm.thoughts))
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
    """Their step has ended without a farewell: a step of its own does their last work."""
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
    """The common end: one step that serves, one that runs."""
    launch(Play())
    assert stage.order == ["serve", "run"]
    assert slurm.ended_steps == []
    assert stage.argv["serve"][0] == "srun"


def test_processes_that_could_not_be_ended_are_named(launch: Launcher, capsys: pytest.CaptureFixture[str]) -> None:
    """A process in an uninterruptible sleep outlives its SIGKILL."""
    launch(Play(close=say(BYE[0], "bye node02 17 18 ") + ended("serve", 0)))
    said = "mnrun: warning: on node02 these processes could not be ended: 17 18\n"
    assert capsys.readouterr().err == said


def test_a_lease_whose_reader_is_gone(launch: Launcher, stage: Stage, mocker: MockerFixture) -> None:
    """srun ended while we wrote: its end, with the reason, is on its way to us."""

    def broken(lease: Lease, data: memoryview) -> int:
        lease._hear(noise("srun: error: no") + ended("serve", 1))
        raise BrokenPipeError

    mocker.patch.object(Lease, "write", broken)
    with pytest.raises(NodeError, match=r"no answer from it \(srun: error: no\)$"):
        launch(Play(close=[]))


def test_a_prompt_is_hung_up(launch: Launcher, stage: Stage) -> None:
    """A shell at a prompt takes no notice of a TERM."""
    stage.play = Play(go=signalled(signal.SIGTERM))
    assert launch.carry_out(make(build(shell="terminal"), 2, 1)) == Outcome(143)
    assert stage.started["run"].signals[0] == signal.SIGHUP
    assert b"end" not in stage.lease.lines


def test_a_bug_of_ours_still_closes_the_lease(launch: Launcher, stage: Stage, mocker: MockerFixture) -> None:
    """Whatever happens."""
    mocker.patch.object(kit, "hostfiles", side_effect=RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        launch(Play())
    assert stage.lease.closed

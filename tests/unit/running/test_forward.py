"""Signals on their way to the program, and what they tell of the scheduler's job."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable, Mapping
from signal import SIGTERM
from typing import cast

import pytest
from pytest_mock import MockerFixture

from mnrun.model import Site
from mnrun.running import forward
from mnrun.running.forward import Forward
from mnrun.schedulers import SCHEDULERS, Scheduler
from mnrun.system.events import Event, State
from mnrun.system.process import Stopped


class Job:
    """A job in a state, as the scheduler says it, and a program that may have begun."""

    def __init__(self, script: bool = True, scheduler: str = "slurm", step: bool = False) -> None:
        self.state, self.begun = "RUNNING", False
        self.sent: list[bytes] = []
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        site = Site(scheduler, "7")
        self.WARNINGS, self.ENDINGS = SCHEDULERS[scheduler].WARNINGS, SCHEDULERS[scheduler].ENDINGS
        self.forward = Forward(
            cast(Scheduler, self),
            site,
            {},
            self.events,
            script=script,
            step=step,
            send=self.sent.append,
            begun=lambda: self.begun,
        )

    def runs(self, job: str, environ: Mapping[str, str]) -> bool:
        return self.state in ("RUNNING", "PREEMPTED")

    def preempted(self, job: str, environ: Mapping[str, str]) -> bool:
        return self.state == "PREEMPTED"

    def told(self, *names: str) -> list[str]:
        """Tell it of these signals, and let the scheduler answer; what the program has got by then."""
        for name in names:
            self.forward.take(name)
            if name in self.ENDINGS:
                state = self.events.get(timeout=60)
                assert isinstance(state, State)
                self.forward.learn(state)
        return self.got

    @property
    def got(self) -> list[str]:
        return [line.decode().split()[1] for line in self.sent]


@pytest.fixture
def now(mocker: MockerFixture) -> Callable[[float], None]:
    clock = [100.0]
    mocker.patch.object(time, "monotonic", side_effect=lambda: clock[0])

    def later(seconds: float) -> None:
        clock[0] += seconds

    return later


def test_a_script_passes_on_what_comes_to_it() -> None:
    job = Job()
    job.begun = True
    assert job.told("USR1", "INT", "TERM", "CONT") == ["USR1", "INT", "TERM", "CONT"]
    assert (job.forward.over, job.forward.preempted) == (False, False)


def test_a_live_run_leaves_slurms_signals_to_the_guards() -> None:
    job = Job(script=False)
    job.begun = True
    assert job.told("USR1") == []
    for job in (Job(script=False, scheduler="hosts"), Job(script=False, step=True)):
        job.begun = True
        assert job.told("USR1") == ["USR1"]


def test_what_comes_early_waits(now: Callable[[float], None]) -> None:
    job = Job()
    assert job.told("USR1", "TERM", "CONT") == []
    assert job.forward.due() is None
    job.begun = True
    assert job.forward.due() == 100 + forward.MOMENT
    job.forward.hand_on()
    assert job.got == []
    now(forward.MOMENT)
    job.forward.hand_on()
    job.forward.hand_on()
    assert job.got == ["USR1", "TERM", "CONT"]
    assert job.forward.due() is None


@pytest.mark.parametrize("name", ["INT", "HUP", "QUIT"])
def test_what_ends_a_launch_whose_program_has_not_begun(name: str) -> None:
    with pytest.raises(Stopped):
        Job().told(name)


@pytest.mark.parametrize("begun", [False, True])
def test_a_term_that_is_the_end(begun: bool) -> None:
    job = Job()
    job.begun, job.state = begun, "COMPLETING"
    assert job.told("TERM") == []
    assert job.forward.over


@pytest.mark.parametrize("name", ["HUP", "ALRM"])
def test_signals_of_a_scheduler_that_may_be_the_end(name: str) -> None:
    """Flux sends no TERM at the time limit, but these."""
    job = Job(scheduler="flux")
    job.begun = True
    assert job.told(name) == [name]
    job.state = "COMPLETING"
    assert job.told(name) == [name]
    assert job.forward.over


def test_a_term_does_not_end_the_question_about_it(mocker: MockerFixture) -> None:
    """The scheduler may send it to all processes of the job, and more than once."""
    job = Job()
    mocker.patch.object(job, "runs", side_effect=lambda *_: SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    job.forward.ask()
    state = job.events.get(timeout=60)
    assert isinstance(state, State)
    assert not state.over


def test_a_question_without_an_answer_is_asked_again(mocker: MockerFixture) -> None:
    """No answer counts as running, and the scheduler warns only once."""
    mocker.patch.object(forward, "REPORTS", 0.01)
    job = Job()
    mocker.patch.object(job, "runs", side_effect=[True, False])
    job.forward.ask()
    for over in (False, True):
        state = job.events.get(timeout=60)
        assert isinstance(state, State)
        job.forward.learn(state)
        assert job.forward.over is over


def test_a_preemption() -> None:
    job = Job()
    job.begun, job.state = True, "PREEMPTED"
    assert job.told("TERM") == ["TERM"]
    assert (job.forward.over, job.forward.preempted) == (False, True)
    job = Job()
    job.state = "PREEMPTED"
    assert job.told("TERM") == []
    assert job.forward.over


def test_one_question_for_the_reports_of_many_nodes(now: Callable[[float], None], mocker: MockerFixture) -> None:
    job = Job()
    asked = mocker.spy(job, "runs")
    for _ in range(1000):
        job.forward.ask()
    job.events.get(timeout=60)
    assert asked.call_count == 1
    now(forward.REPORTS)
    job.forward.ask()
    job.events.get(timeout=60)
    assert asked.call_count == 2


@pytest.mark.parametrize(("warned", "state", "over"), [(False, "CANCELLED", False), (True, "CANCELLED", True)])
def test_whether_it_is_over_is_asked_where_a_guard_was_warned(warned: bool, state: str, over: bool) -> None:
    job = Job()
    job.state = state
    assert job.forward.is_over(warned) is over
    assert job.forward.is_over(False) is over


def test_whether_it_is_over_while_the_answer_to_a_warning_is_on_its_way() -> None:
    job = Job()
    job.state = "CANCELLED"
    job.forward.ask()  # its answer is an event that nobody has taken yet
    assert job.forward.is_over(False)

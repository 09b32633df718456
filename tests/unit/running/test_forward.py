"""Signals on their way to the program, and what they tell of the scheduler's job."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import cast

import pytest
from pytest_mock import MockerFixture

from mnrun.model import Site
from mnrun.running import forward
from mnrun.running.forward import Forward
from mnrun.schedulers import SCHEDULERS, Scheduler
from mnrun.system.process import Event, Stopped


class Job:
    """A job in a state, as the scheduler says it, and a program that may have begun."""

    def __init__(self, script: bool = True, scheduler: str = "slurm", step: bool = False) -> None:
        self.state, self.begun = "RUNNING", False
        self.sent: list[bytes] = []
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        site = Site(scheduler, "7")
        self.SIGNALS = SCHEDULERS[scheduler].SIGNALS
        self.forward = Forward(
            cast(Scheduler, self),
            site,
            self.events,
            script=script,
            step=step,
            send=self.sent.append,
            begun=lambda: self.begun,
        )

    def runs(self, job: str) -> bool:
        return self.state in ("RUNNING", "PREEMPTED")

    def preempted(self, job: str) -> bool:
        return self.state == "PREEMPTED"

    def told(self, *names: str) -> list[str]:
        """Tell it of these signals, and let the scheduler answer; what the program has got by then."""
        for name in names:
            self.forward.tell(name)
            if name == "TERM":
                kind, signal, answer = self.events.get(timeout=10)
                assert kind == "state"
                self.forward.learn(signal, answer)
        return self.got

    @property
    def got(self) -> list[str]:
        return [line.decode().split()[1] for line in self.sent]


@pytest.fixture
def now(mocker: MockerFixture) -> Callable[[float], None]:
    """A clock that the test moves."""
    clock = [100.0]
    mocker.patch.object(time, "monotonic", side_effect=lambda: clock[0])

    def later(seconds: float) -> None:
        clock[0] += seconds

    return later


def test_a_script_passes_on_what_comes_to_it() -> None:
    """A TERM too, where the scheduler says that it is a mere warning."""
    job = Job()
    job.begun = True
    assert job.told("USR1", "INT", "TERM", "CONT") == ["USR1", "INT", "TERM", "CONT"]
    assert (job.forward.over, job.forward.preempted) == (False, False)


def test_a_live_run_leaves_slurms_signals_to_the_guards() -> None:
    """They hear them themselves; on hosts there is nobody else who does, and in a step they would hear them twice."""
    job = Job(script=False)
    job.begun = True
    assert job.told("USR1") == []
    for job in (Job(script=False, scheduler="hosts"), Job(script=False, step=True)):
        job.begun = True
        assert job.told("USR1") == ["USR1"]


def test_what_comes_early_waits(now: Callable[[float], None]) -> None:
    """Until the program is there, and has had a moment to be ready for it; in the order in which it came."""
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
    """The job is cancelled, or its time is over: that is known, and nothing is passed on."""
    job = Job()
    job.begun, job.state = begun, "COMPLETING"
    assert job.told("TERM") == []
    assert job.forward.over


def test_a_preemption() -> None:
    """A program that is there is told, and has its time of grace; one that has not begun has no time to."""
    job = Job()
    job.begun, job.state = True, "PREEMPTED"
    assert job.told("TERM") == ["TERM"]
    assert (job.forward.over, job.forward.preempted) == (False, True)
    job = Job()
    job.state = "PREEMPTED"
    assert job.told("TERM") == []
    assert job.forward.over


def test_one_question_for_the_reports_of_many_nodes(now: Callable[[float], None], mocker: MockerFixture) -> None:
    """Each guard reports the same TERM; a later one is another."""
    job = Job()
    asked = mocker.spy(job, "runs")
    for _ in range(1000):
        job.forward.ask()
    job.events.get(timeout=10)
    assert asked.call_count == 1
    now(forward.REPORTS)
    job.forward.ask()
    job.events.get(timeout=10)
    assert asked.call_count == 2


@pytest.mark.parametrize(("warned", "state", "over"), [(False, "CANCELLED", False), (True, "CANCELLED", True)])
def test_whether_it_is_over_is_asked_where_a_guard_was_warned(warned: bool, state: str, over: bool) -> None:
    job = Job()
    job.state = state
    assert job.forward.is_over(warned) is over
    assert job.forward.is_over(False) is over

"""Forward signals to the program, and learn from them about the scheduler's job.

Slurm sends its signals to every process of a step, so that the guards receive them too. In a live run, the guards alone
pass them on. A signal to a batch script (sbatch --signal=B:…, scancel --batch) reaches this process alone.
Where mnrun is a task of a step, this process alone passes on a signal to all steps. The guards receive that signal
twice: from Slurm, and from mnrun's srun, which has received it too.
"""

from __future__ import annotations

import math
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mnrun.model import Site
from mnrun.schedulers import Scheduler
from mnrun.system.commands import deaf_to
from mnrun.system.events import Event, State
from mnrun.system.process import Stopped

REPORTS = 2.0  # seconds in which the guards report one and the same TERM, as guard.sh counts it
MOMENT = 3.0  # seconds that a program needs after its begin to install its signal handlers


@dataclass
class Forward:
    """The signals of one launch."""

    scheduler: Scheduler
    site: Site
    environ: Mapping[str, str]
    events: queue.SimpleQueue[Event]
    script: bool  # whether the scheduler's signals to the batch script come here
    step: bool  # whether those to all steps do
    send: Callable[[bytes], None]
    begun: Callable[[], bool]  # returns whether all ranks have begun: an earlier signal would end mpirun
    over: bool = False  # the scheduler's answers about its job
    preempted: bool = False
    _early: list[str] = field(default_factory=list)
    _last_question: float = -math.inf
    _unanswered: int = 0  # questions under way
    _since: float | None = None  # time at which the program had begun

    def take(self, name: str) -> None:
        """Take in a signal. Raises Stopped if it ends a launch whose program has not begun."""
        if self.scheduler.WARNINGS and not (self.script or self.step):
            return
        if name in self.scheduler.ENDINGS:
            self.ask(name)
        elif self._has_begun():
            self._pass_on(name)
        elif name in ("INT", "HUP", "QUIT"):
            raise Stopped(signal.Signals[f"SIG{name}"])
        else:
            self._early.append(name)

    def ask(self, name: str = "") -> None:
        """Ask the scheduler whether a TERM, or another of its ENDINGS, is only a warning. If so, `name` is passed on.

        The answer becomes an event. Nothing waits for it, since it may take long and the program may end meanwhile.
        Every guard reports a TERM. One question answers the reports of a few seconds, however many nodes there are. If
        the job goes on, the question is asked once more, quietly.
        """
        if not name and time.monotonic() < self._last_question + REPORTS:
            return
        self._last_question = time.monotonic()
        self._unanswered += 1

        def answer() -> None:
            with deaf_to(*(signal.Signals[f"SIG{each}"] for each in self.scheduler.ENDINGS)):
                runs = self.scheduler.runs(self.site.job, self.environ)
                preempted = self.script and runs and self.scheduler.preempted(self.site.job, self.environ)
                self.events.put(State(name, not runs, preempted))
                if runs:  # or it did not answer, and the end may come in a few seconds
                    time.sleep(REPORTS)
                    if not self.scheduler.runs(self.site.job, self.environ):
                        self.events.put(State("", True, False))

        threading.Thread(target=answer, daemon=True).start()

    def learn(self, state: State) -> None:
        self._unanswered = max(0, self._unanswered - 1)
        self.over, self.preempted = self.over or state.over, self.preempted or state.preempted
        if state.signal and not state.over and self._has_begun():
            self._pass_on(state.signal)
        elif state.signal and state.preempted:
            self.over = True  # the program has not begun, and no time is left for it
        elif state.signal and not state.over:
            self._early.append(state.signal)

    def is_over(self, warned: bool) -> bool:
        """Return whether the job is over. Ask the scheduler where a TERM has `warned` of the end."""
        if (warned or self._unanswered) and not self.scheduler.runs(self.site.job, self.environ):
            self.over = True
        return self.over

    def hand_on(self) -> None:
        """Pass on the early signals, once the program has had a moment to install its handlers."""
        due = self.due()
        if due is not None and time.monotonic() >= due:
            for name in self._early:
                self._pass_on(name)
            self._early.clear()

    def due(self) -> float | None:
        """Return the time at which `hand_on` has work, or None while that is unknown."""
        if self._early and self._has_begun():
            assert self._since is not None
            return self._since + MOMENT
        return None

    def _has_begun(self) -> bool:
        begun = self.begun()
        if begun and self._since is None:
            self._since = time.monotonic()
        return begun

    def _pass_on(self, name: str) -> None:
        self.send(b"signal %s\n" % name.encode())

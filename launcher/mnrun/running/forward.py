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
from collections.abc import Callable

from mnrun.model import Site
from mnrun.schedulers import Scheduler
from mnrun.system.process import Event, Stopped

REPORTS = 2.0  # seconds in which the guards report one and the same TERM, as guard.sh counts it
MOMENT = 3.0  # seconds that a program needs after its begin to install its signal handlers


class Forward:
    """The signals of one launch. `over` and `preempted` are the scheduler's answers about its job."""

    def __init__(
        self,
        scheduler: Scheduler,
        site: Site,
        events: queue.SimpleQueue[Event],
        *,
        script: bool,
        step: bool,
        send: Callable[[bytes], None],
        begun: Callable[[], bool],
    ) -> None:
        """Prepare to forward.

        `scheduler` answers questions about the job. `script` says that the scheduler's signals to the batch script come
        here, and `step` that those to all steps do. `begun` returns whether the program has begun, with all of its
        ranks: an earlier signal would end mpirun.
        """
        self._scheduler, self._site, self._events = scheduler, site, events
        self._script, self._step = script, step
        self._send, self._begun = send, begun
        self._early: list[str] = []
        self._last_question = -math.inf
        self._since: float | None = None  # time at which the program had begun
        self.over = False
        self.preempted = False

    def tell(self, name: str) -> None:
        """Take in a signal. Raises Stopped if it ends a launch whose program has not begun."""
        if self._scheduler.SIGNALS and not (self._script or self._step):
            return
        if name == "TERM":
            self.ask(name)
        elif self._has_begun():
            self._pass_on(name)
        elif name in ("INT", "HUP", "QUIT"):
            raise Stopped(signal.Signals[f"SIG{name}"])
        else:
            self._early.append(name)

    def ask(self, name: str = "") -> None:
        """Ask the scheduler whether a TERM is only a warning. If so, `name` is passed on.

        The answer becomes an event. Nothing waits for it, since it may take long and the program may end meanwhile.
        Every guard reports a TERM. One question answers the reports of a few seconds, however many nodes there are.
        """
        if not name and time.monotonic() < self._last_question + REPORTS:
            return
        self._last_question = time.monotonic()

        def answer() -> None:
            runs = self._scheduler.runs(self._site.job)
            preempted = self._script and runs and self._scheduler.preempted(self._site.job)
            self._events.put(("state", name, (not runs, preempted)))

        threading.Thread(target=answer, daemon=True).start()

    def heed(self, warned: bool) -> None:
        """Ask whether the job is over, if a TERM has `warned` a guard."""
        if warned:
            self.ask()

    def learn(self, name: str, answer: object) -> None:
        """Take in the answer to `ask`."""
        assert isinstance(answer, tuple)
        over, preempted = answer
        self.over, self.preempted = self.over or over, self.preempted or preempted
        if name and not over and self._has_begun():
            self._pass_on(name)
        elif name and preempted:
            self.over = True  # the program has not begun, and no time is left for it
        elif name and not over:
            self._early.append(name)

    def is_over(self, warned: bool) -> bool:
        """Return whether the job is over. Ask the scheduler only if a TERM has `warned` of the end."""
        if warned and not self._scheduler.runs(self._site.job):
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
        begun = self._begun()
        if begun and self._since is None:
            self._since = time.monotonic()
        return begun

    def _pass_on(self, name: str) -> None:
        self._send(b"signal %s\n" % name.encode())

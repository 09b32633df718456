"""Signals on their way to the program, and what they tell of the scheduler's job.

Slurm sends its signals to every process of a step, so that the guards hear them as well as we do: of a live run they
have one way only, the guards'. Those to a batch script (sbatch --signal=B:…, scancel --batch) come to us alone.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from mnrun.model import Site
from mnrun.system.process import Event, Stopped

MOMENT = 3.0  # seconds for a program that has begun to be ready for signals


class Forward:
    """The signals of one launch. `over` and `preempted` are what the scheduler has said of its job."""

    def __init__(
        self,
        asked: Any,
        site: Site,
        events: queue.SimpleQueue[Event],
        *,
        script: bool,
        send: Callable[[bytes], None],
        begun: Callable[[], bool],
    ) -> None:
        """`asked` knows of the job; `script`: the scheduler's signals to the batch script come to us; `begun` says
        whether the program is there, of ranks all of them: their mpirun would end by a signal before."""
        self._asked, self._site, self._events, self._script = asked, site, events, script
        self._send, self._begun = send, begun
        self._early: list[str] = []
        self._since: float | None = None  # the program is there
        self.over = False
        self.preempted = False

    def tell(self, name: str) -> None:
        """Take in a signal. Raises Stopped where it ends a launch whose program has not begun."""
        if not self._script and self._site.scheduler == "slurm":
            return
        if name == "TERM":
            self.ask(name)
        elif self._has_begun():
            self._pass_on(name)
        elif name in ("INT", "HUP", "QUIT"):
            raise Stopped(signal.Signals[f"SIG{name}"])
        else:
            self._early.append(name)

    def ask(self, told: str = "") -> None:
        """Ask whether a TERM is a mere warning; `told` is to be passed on then. Nobody waits for the answer, which may
        be long in coming, and becomes an event: the program may end meanwhile."""

        def answer() -> None:
            runs = self._asked.runs(self._site.job)
            preempted = self._script and runs and self._asked.preempted(self._site.job)
            self._events.put(("state", told, (not runs, preempted)))

        threading.Thread(target=answer, daemon=True).start()

    def learn(self, told: str, answer: object) -> None:
        """Take in the answer to `ask`."""
        assert isinstance(answer, tuple)
        over, preempted = answer
        self.over, self.preempted = self.over or over, self.preempted or preempted
        if told and not over and self._has_begun():
            self._pass_on(told)
        elif told and preempted:
            self.over = True  # its program has not begun, and has no time left to
        elif told and not over:
            self._early.append(told)

    def is_over(self, warned: bool) -> bool:
        """Return whether the job is, where that is known or a TERM has `warned` of it."""
        if warned and not self._asked.runs(self._site.job):
            self.over = True
        return self.over

    def hand_on(self) -> None:
        """Pass on what came early, once the program has had a moment to be ready for it."""
        due = self.due()
        if due is not None and time.monotonic() >= due:
            for name in self._early:
                self._pass_on(name)
            self._early.clear()

    def due(self) -> float | None:
        """Return when `hand_on` has something to do; None while nobody knows."""
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

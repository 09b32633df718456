"""Turn signals to mnrun into events, or into an orderly exit."""

from __future__ import annotations

import contextlib
import queue
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import Any

from mnrun.system.events import Event, Signal, Told
from mnrun.system.paths import mode


def _has_a_reader(fd: int) -> bool:
    """Return whether `fd` leads to a reader that may go away: a pipe or a connection."""
    return stat.S_ISFIFO(mode(fd)) or stat.S_ISSOCK(mode(fd))


@contextlib.contextmanager
def cleaning_up() -> Iterator[None]:
    """Enclose work that leaves files behind. HUP and TERM end it by an exception, as Ctrl-C does. Only the first signal
    counts. A closed terminal sends HUP more than once, and a later one would interrupt the cleaning."""

    def leave(signum: int, frame: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + signum)

    ending = (signal.SIGHUP, signal.SIGTERM)
    before = {each: signal.SIG_DFL for each in ending if signal.getsignal(each) == signal.SIG_DFL}
    for each in before:
        signal.signal(each, leave)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Hold back INT, HUP and TERM until the end of a short work, such as the removal of files."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, Signals.ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Signals:
    """SIGINT, SIGTERM and SIGHUP as events inside the context. Signals that were ignored at the start stay ignored.

    The end of every reader of mnrun's output counts as a SIGHUP: without a terminal ssh sends none. The end of those of
    standard output alone counts as a SIGPIPE: `mnrun … | head -1`. What the ranks print may go by mnrun. USR1 and USR2
    are for the program, and do not end mnrun. The signals in `forward` become events for the program.
    """

    ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    PROGRAMS = (signal.SIGUSR1, signal.SIGUSR2)
    OUTPUTS = (1, 2)

    def __init__(self, events: queue.SimpleQueue[Event], forward: Collection[signal.Signals] = ()) -> None:
        self._events = events
        self._forward = forward
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}
        self._over = threading.Event()

    def __enter__(self) -> Signals:
        for signum in dict.fromkeys((*self.ALL, *self.PROGRAMS, *self._forward)):
            # nohup ignores HUP, and a shell lets background jobs ignore INT and QUIT (bash(1), SIGNALS)
            # None is a handler that a library has set in C, and Python cannot set it again
            if signal.getsignal(signum) not in (signal.SIG_IGN, None):
                self._before[signum] = signal.signal(signum, self._note)
        if _has_a_reader(self.OUTPUTS[0]):
            threading.Thread(target=self._watch, args=(_has_a_reader(self.OUTPUTS[1]),), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _watch(self, both: bool) -> None:
        out, err = polls = select.poll(), select.poll()
        for fd, poll in zip(self.OUTPUTS, polls):
            poll.register(fd, 0)  # poll(2) reports POLLERR and POLLHUP without a request
        while not self._over.wait(1):
            if out.poll(0):
                if not (both and err.poll(200)):  # a connection that ends closes both, one after the other
                    self._note(signal.SIGPIPE, None)
                elif signal.SIGHUP in {*self._before} - {*self._forward}:  # not under nohup
                    self._note(signal.SIGHUP, None)
                return

    def _note(self, signum: int, frame: object | None) -> None:
        if signum in self._forward:
            self._events.put(Told(signal.Signals(signum).name[3:]))
        elif signum not in self.PROGRAMS:
            self._events.put(Signal(signum))

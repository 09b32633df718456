"""The user's terminal: lent to what runs elsewhere, and given back as it was."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

INPUT = 0


@contextmanager
def kept() -> Iterator[None]:
    """What programs change of the terminal on standard input, until the end, is changed back; nothing where
    there is none. srun does so itself, but for when it is killed."""
    try:
        modes = termios.tcgetattr(INPUT)
    except termios.error:
        yield
        return
    try:
        yield
    finally:
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # not in its foreground we would be stopped
        with suppress(OSError, termios.error):  # it may be gone
            if not _lives(os.tcgetpgrp(INPUT)):
                os.tcsetpgrp(INPUT, os.getpgrp())
            if os.tcgetpgrp(INPUT) == os.getpgrp():
                termios.tcsetattr(INPUT, termios.TCSANOW, modes)
        signal.signal(signal.SIGTTOU, before)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def size() -> tuple[int, int]:
    """Its columns and lines."""
    return shutil.get_terminal_size()


class Lent:
    """The terminal on standard input for what runs on another machine: it gets every key, and what it writes is
    shown as it is. Made in the main thread."""

    def __init__(self, resized: Callable[[int, int], None]) -> None:
        """`resized` is told of each new size, in a thread of its own: it may wait."""
        self._modes = termios.tcgetattr(INPUT)
        self._changes: queue.SimpleQueue[None] = queue.SimpleQueue()  # its put may interrupt itself
        self._resized = resized
        signal.signal(signal.SIGWINCH, lambda *_: self._changes.put(None))
        threading.Thread(target=self._follow, daemon=True).start()
        tty.setraw(INPUT, termios.TCSANOW)

    def back(self) -> None:
        with suppress(termios.error):  # it may be gone
            termios.tcsetattr(INPUT, termios.TCSANOW, self._modes)

    def _follow(self) -> None:
        with suppress(OSError):  # whom it is lent to has ended
            while True:
                self._changes.get()
                self._resized(*size())

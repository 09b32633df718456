"""Lend the user's terminal to remote programs, and restore it."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import stat
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

INPUT = 0


@contextmanager
def restoring() -> Iterator[None]:
    """Restore the modes of the terminal on standard input at the end. Do nothing without a terminal.

    srun restores them itself, except when it is killed.
    """
    try:
        modes = termios.tcgetattr(INPUT)
    except termios.error:
        yield
        return
    try:
        yield
    finally:
        # SIGTTOU would stop a background process that calls tcsetpgrp (tcsetpgrp(3)).
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with suppress(OSError, termios.error):  # the terminal may be gone
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


def background() -> bool:
    """Return whether standard input is this process's terminal, and other processes are in its foreground.

    Such a process would stop at a read (SIGTTIN). A child in a session of its own would take the user's next words.
    """
    with suppress(OSError):
        return os.isatty(INPUT) and os.tcgetpgrp(INPUT) != os.getpgrp()
    return False


def controls() -> bool:
    """Return whether this process has a controlling terminal (tty(4)), whatever its standard input is."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def is_device() -> bool:
    """Return whether standard input is a terminal or /dev/null, which srun --pty gives to all tasks but the first."""
    try:
        return stat.S_ISCHR(os.fstat(INPUT).st_mode)
    except OSError:
        return False


def size() -> tuple[int, int]:
    """Return the terminal's columns and lines."""
    return shutil.get_terminal_size()


class RawTerminal:
    """The terminal on standard input, lent to a program on another machine. Create it in the main thread.

    The program gets every key, and its output is shown unchanged.
    """

    def __init__(self, resized: Callable[[int, int], None]) -> None:
        """Lend the terminal. `resized` gets each new size, in a thread of its own, since it may wait."""
        self._modes = termios.tcgetattr(INPUT)
        # A signal handler may call SimpleQueue.put during another put: it is reentrant (Python's queue manual).
        self._changes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._resized = resized
        signal.signal(signal.SIGWINCH, lambda *_: self._changes.put(None))
        threading.Thread(target=self._follow, daemon=True).start()
        tty.setraw(INPUT, termios.TCSANOW)

    def back(self) -> None:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(INPUT, termios.TCSANOW, self._modes)

    def _follow(self) -> None:
        with suppress(OSError):  # the remote program has ended
            while True:
                self._changes.get()
                self._resized(*size())

"""Look at the user's terminal, and restore it after a program that had it."""

from __future__ import annotations

import os
import signal
import stat
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mnrun.system.paths import mode

INPUT = 0


@contextmanager
def restoring() -> Iterator[None]:
    """Restore the modes of the terminal on standard input, if it is one. srun does, except when it is killed."""
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
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def background() -> bool:
    """Return whether standard input is this process's terminal, and other processes are in its foreground. Such a
    process would stop at a read (SIGTTIN). A child in a session of its own would take the user's next words."""
    with suppress(OSError):
        return os.isatty(INPUT) and os.tcgetpgrp(INPUT) != os.getpgrp()
    return False


def controls() -> bool:
    """Return whether this process has a controlling terminal (tty(4)), whatever its standard input is."""
    with suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        return True
    return False


def is_device() -> bool:
    """Return whether standard input is a terminal or /dev/null, which srun --pty gives to all tasks but the first."""
    return stat.S_ISCHR(mode(INPUT))

"""The user's terminal, given back as it was."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Iterator
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

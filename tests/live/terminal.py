"""A terminal: type into a command and read what it shows, as a person does.

with Terminal(cluster.argv(LOGIN, "alice", ["salloc", "-N4"])) as terminal:
    terminal.write("mnrun …")
    terminal.expect("rank 0 of")
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from types import TracebackType

from . import autopsy
from .stage import PATIENCE

_AWAIT_TERMINAL = """\
until read -r _ _ _ _ group _ _ foreground _ </proc/$$/stat && [ "$group" = "$foreground" ]; do sleep 0.05; done
exec "$0"
"""


def salloc(*words: str, shell: str = "bash") -> list[str]:
    """Return the words of a shell that salloc leaves on the login node.

    salloc gives the terminal to its command only after it has started it. A shell that looks before that stops itself
    (SIGTTIN), and salloc wakes nobody: so this one starts when the terminal is its own.
    """
    return ["salloc", *words, "sh", "-c", _AWAIT_TERMINAL, shell]


class Terminal:
    """A command with a terminal of its own."""

    def __init__(self, argv: Sequence[str | bytes]) -> None:
        self._master, slave = pty.openpty()
        self.resize(50, 200)
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.seen = ""  # all of it
        self._place = 0  # up to where it has been expected

    def write(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))

    def hang_up(self) -> None:
        """Close its window."""
        os.close(self._master)
        self._master = -1

    def expect(self, pattern: str, seconds: float = PATIENCE) -> re.Match[str]:
        """Return the next place where the pattern shows up; fails at the deadline or at the end."""
        deadline = time.monotonic() + seconds
        while True:
            match = re.compile(pattern).search(self.seen, self._place)
            if match:
                self._place = match.end()
                return match
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern!r} does not show up:\n{self.seen}\n{autopsy.processes(self.process.pid)}"
            if not self._read(left):
                match = re.compile(pattern).search(self.seen, self._place)
                assert match, f"ended before {pattern!r} showed up:\n{self.seen}"

    def end(self, seconds: float = PATIENCE) -> int:
        """Return its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(max(0.0, deadline - time.monotonic())):
            late = time.monotonic() >= deadline
            assert not late, f"still there after {seconds:.0f} s:\n{self.seen}\n{autopsy.processes(self.process.pid)}"
        return self.process.wait(max(1.0, deadline - time.monotonic()))

    def _read(self, seconds: float) -> bool:
        """Take in what has come; False at the end."""
        if not select.select([self._master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how the end of a terminal shows
            return False
        self.seen += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        if self._master >= 0:
            os.close(self._master)

"""The terminal of mnrun's standard input."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from unit.world import World

# A process with a terminal of its own, and a child of it in a group of its own, say whether they are in the background.
GROUPS = """
import os, pty
from mnrun.system.terminal import background

pid, terminal = pty.fork()
if pid == 0:
    said = [background()]
    out, into = os.pipe()
    if os.fork() == 0:
        os.setpgid(0, 0)
        os.write(into, b"%d" % background())
        os._exit(0)
    os.close(into)
    os.wait()
    os.write(1, b"%d%s" % (said[0], os.read(out, 1)))
    os._exit(0)
print(os.read(terminal, 9).decode())
"""


def told(program: str, *words: str) -> str:
    """Return the output of a Python program that knows mnrun."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", program, *words]
    return subprocess.run(
        argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True, timeout=60
    ).stdout


def test_in_the_background_of_a_terminal(world: World) -> None:
    with world.allowed():
        assert told(GROUPS) == "01\n"


@pytest.mark.parametrize("kind", ["file", "a terminal of others"])
def test_in_no_background(world: World, kind: str) -> None:
    """A file has no foreground, and another session's terminal cannot be asked for it."""
    program = "import pty, sys; from mnrun.system import terminal; "
    program += "terminal.INPUT = pty.openpty()[1] if sys.argv[1] != 'file' else 0; print(terminal.background())"
    with world.allowed():
        assert told(program, kind) == "False\n"

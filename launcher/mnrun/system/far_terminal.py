"""Give a program on another machine a terminal, where the client that starts it there has pipes alone.

`near` runs the client, and hands on what a person types. `serve` runs the program on a terminal of its own. The size of
the window goes in between as the control sequence CSI 8 ; LINES ; COLUMNS t (xterm's ctlseqs).
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from contextlib import suppress

from mnrun.model import Words
from mnrun.system import terminal
from mnrun.system.process import write

_SIZE = re.compile(rb"\x1b\[8;(\d{1,4});(\d{1,4})t")

# `python -m` would look for modules in the working directory first.
_NEAR = (
    "import sys; sys.path[:] = filter(None, sys.path)\n"
    "from mnrun.system.far_terminal import near; sys.exit(near(sys.argv[1] == 'served', sys.argv[2:]))"
)


def by_near(client: Words, served: bool) -> Words:
    """Return the words that run a client by `near`."""
    return (sys.executable, "-c", _NEAR, "served" if served else "", *client)


# Keeps the code of a program in a file, where its client loses it.
_KEEP = 'f=$(mktemp "$HOME/.mnrun.XXXXXX") && "$@" "$f"; read -r c <"$f"; rm -f -- "$f"; exit "${c:-1}"'


def keeping_code(client: Words, words: Words, first: str) -> Words:
    """Return the words of a client that runs words on another machine with this home, after the line `first`, and
    returns their code."""
    line = f'{first} && {shlex.join(words)}; echo $? >"$0"'
    return ("sh", "-c", _KEEP, "sh", *client, "/bin/bash", "-lc", line)


def seen(words: Words) -> str:
    """Return the line of a client for a person, without what is around it."""
    return shlex.join(words[4:] if words[2:3] in ((_NEAR,), (_KEEP,)) else words)


def on_terminal(words: Words) -> Words:
    """Return the words that run a program on a terminal of this size, by script(1), where `serve` is not at hand."""
    columns, lines = os.get_terminal_size(terminal.INPUT)
    inner = f"stty rows {lines} cols {columns}; exec {shlex.join(words)}"
    return ("env", "TERM=xterm", "script", "-qefc", inner, "/dev/null")


def near(served: bool, words: Sequence[str]) -> int:
    """Run a client with this terminal, and return its code. Until its first output, Ctrl-C is for the client.

    `served` says that `serve` is at the other end, which takes the size of the window.
    """
    pipe, own = subprocess.PIPE, not served  # the end of a job's own client ends the job
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, bufsize=0, start_new_session=own) as client:
        assert client.stdin is not None and client.stdout is not None
        target, source = client.stdin.fileno(), client.stdout.fileno()
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGWINCH, lambda *_: None)
        signal.signal(signal.SIGINT, lambda *_: None)  # the client gets it, too
        with terminal.restoring(), suppress(BrokenPipeError):
            others = {terminal.INPUT: lambda: _typed(target)}
            if served:
                _tell_size(target)
                others[woken] = lambda: _resized(woken, target)
            data = os.read(source, 65536)
            tty.setraw(terminal.INPUT)
            while data:
                write(1, data)
                data = _next(source, others)
        return client.wait()


def _tell_size(target: int) -> None:
    columns, lines = os.get_terminal_size(terminal.INPUT)
    os.write(target, b"\x1b[8;%d;%dt" % (lines, columns))


def _typed(target: int) -> None:
    os.write(target, os.read(terminal.INPUT, 4096))


def _resized(woken: int, target: int) -> None:
    if signal.SIGWINCH in os.read(woken, 64):
        _tell_size(target)


def _next(source: int, others: dict[int, Callable[[], None]]) -> bytes:
    """Return the next output, or b"" at its end. Serve the other descriptors meanwhile."""
    while source not in (ready := select.select([source, *others], [], [])[0]):
        for other in ready:
            others[other]()
    with suppress(OSError):  # the end of a terminal
        return os.read(source, 65536)
    return b""


def serve(words: Sequence[str]) -> int:
    """Run a program on a terminal, and return its code. It is hung up when nobody types any more."""
    master, slave = pty.openpty()
    program = subprocess.Popen(
        words,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(terminal.INPUT, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    keys: dict[int, Callable[[], None]] = {terminal.INPUT: lambda: _keys(program.pid, master, keys)}
    while data := _next(master, keys):
        write(1, data)
    code = program.wait()
    return 128 - code if code < 0 else code


def _keys(pid: int, master: int, keys: dict[int, Callable[[], None]]) -> None:
    """Hand on what is typed, and set the size of the window."""
    data = os.read(terminal.INPUT, 4096)
    for lines, columns in _SIZE.findall(data):
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", int(lines), int(columns), 0, 0))
    if typed := _SIZE.sub(b"", data):
        write(master, typed)
    if not data:
        keys.clear()
        os.kill(pid, signal.SIGHUP)

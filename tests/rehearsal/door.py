"""Start a command in a node's namespaces: `python3 -IS door.py PID WORDS…`, where PID is a process of the node.

The live tests do this thousands of times. So this file imports little: the start of Python is most of its cost.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

NEWNS = 0x00020000
NEWCGROUP = 0x02000000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWPID = 0x20000000
NEWNET = 0x40000000
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def call(name: str, *words: int) -> None:
    """Make a system call of libc; OSError where it fails. The `os` module has these only from Python 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*words):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def join(pid: int, kinds: int) -> None:
    """Join some of the namespaces of a process; children that are forked from now on are in its pid one."""
    handle = os.pidfd_open(pid)
    try:
        call("setns", handle, kinds)
    finally:
        os.close(handle)


def usual_signals() -> None:
    """Set all signals as a login finds them: Python ignores some, and a shell's `&` some more."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def run(pid: int, line: list[str]) -> int:
    """Run a command beside a process, with our standard streams; return what a shell would call its status."""
    os.umask(0o022)
    join(pid, NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWPID | NEWNET)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            usual_signals()
            os.execv(line[0], line)
        finally:
            os._exit(127)
    return _follow(child)


def _follow(child: int) -> int:
    """Wait for the child and forward signals to it: this process stands between it and the caller."""

    def forward(number: int, frame: object) -> None:
        try:  # noqa: SIM105  # contextlib takes half as long to import as Python to start
            os.kill(child, number)
        except ProcessLookupError:
            pass

    for number in FORWARDED:
        signal.signal(number, forward)
    # Keys that are pressed at a terminal reach the child by themselves, which is in this process group.
    at_terminal = sys.stdin is not None and os.isatty(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN if at_terminal else forward)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN if at_terminal else forward)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2:]))

"""Run a command in a node as somebody logged in there; `exec` of the command line.

Tests do this hundreds of times, so nothing heavy is imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from .errors import Unable
from .model import USERS, Cluster
from .namespaces import step_into, usual_signals

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def words(argv: Sequence[str], user: str, cwd: str | None, term: str) -> list[str]:
    """The command with the environment of a login, and nothing of the caller's."""
    if user not in USERS:
        raise Unable(f"there is no user {user!r}: {', '.join(USERS)}")
    uid = str(USERS[user])
    home = "/root" if user == "root" else f"/home/{user}"
    return [
        "/usr/bin/setpriv", "--reuid", uid, "--regid", uid, "--init-groups",
        # If the caller is killed, it is as if a connection broke.
        "--pdeathsig", "HUP",
        "/usr/bin/env", "-i", "-C", cwd or home,
        f"HOME={home}", f"USER={user}", f"LOGNAME={user}", "SHELL=/bin/bash",
        f"PATH={PATH}", f"TERM={term}", "LANG=C.UTF-8", *argv,
    ]  # fmt: skip


def enter(cluster: Cluster, node: str, argv: Sequence[str], user: str = "root", cwd: str | None = None) -> int:
    """Run argv in the node, with our standard streams; return what a shell would call its status."""
    if os.geteuid() != 0:
        raise Unable("the cluster needs root: run it with sudo")
    line = words(argv, user, cwd, os.environ.get("TERM", "dumb"))
    pid = cluster.pid(cluster.node(node))
    if pid is None:
        raise Unable(f"{node} is switched off: `scripts/cluster --name {cluster.name} heal {node}`")
    os.umask(0o022)
    step_into(pid)
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
    """Wait for the child and hand signals on: we stand between it and whoever called us."""

    def forward(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    # Keys pressed at a terminal reach the child by themselves, being in our process group.
    at_terminal = sys.stdin is not None and os.isatty(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN if at_terminal else forward)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN if at_terminal else forward)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 128 - code if code < 0 else code

"""Run a command in a node as somebody logged in there; `exec` of the command line.

The live tests start its words by door.py itself. Nothing heavy is imported here either.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar, Union

from .door import run
from .errors import Unable
from .model import USERS, Cluster

T = TypeVar("T", bound=Union[str, bytes])
# The last is of PBS, whose programs are in a login shell's.
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/opt/pbs/bin"


def words(argv: Sequence[T], user: str, cwd: str | None, term: str) -> list[str | T]:
    """The command with the environment of a login, and nothing of the caller's."""
    if user not in USERS:
        raise Unable(f"there is no user {user!r}: {', '.join(USERS)}")
    uid = str(USERS[user])
    home = "/root" if user == "root" else f"/home/{user}"
    return [
        "/usr/bin/setpriv", "--reuid", uid, "--regid", uid, "--init-groups",
        # If the caller is killed, it is as if a connection broke.
        "--pdeathsig", "HUP",
        "/usr/bin/env", "--default-signal", "-i", "-C", cwd or home,
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
    return run(pid, line)

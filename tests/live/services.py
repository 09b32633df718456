"""Services on any scheduler: their start, their page, their token and their end."""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .cells import full
from .stage import LOGIN, Cluster, Desk, Process, Result, wait_for

PROGRAMS = Path(__file__).parent / "programs"
HEX = re.compile(r"[0-9a-f]{32}")
OPEN = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1]).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def programs(desk: Desk) -> None:
    for name in ("server.py", "engine.sh"):
        desk.cluster.put(f"{desk.path}/{name}", (PROGRAMS / name).read_text())


def ready(cluster: Cluster, job: str, around: Sequence[str] = ()) -> Any:
    """Wait until a service is ready, and return what `serve --show` says of it. `around` is before each line."""
    show = [*around, "mnrun", "serve", "--show", job]
    wait_for(lambda: cluster.alice(show).code == 0, f"service {job}")
    return json.loads(cluster.alice([*show, "--json"]).out)


def through(cluster: Cluster, desk: Desk, shown: str, page: str) -> None:
    """The printed line through the login node brings the page, where the site knows another key of the node."""
    line = next(line for line in shown.splitlines() if "ProxyCommand" in line).partition(":")[2]
    ask = f"until python3 -c {shlex.quote(OPEN)} {shlex.quote(page)} 2>/dev/null || ! kill -0 $!; do sleep 0.2; done"
    script = f"eval exec {shlex.quote(line)} & trap 'kill $!' EXIT; {ask}"
    answer = cluster.alice(["sh", "-c", script], cwd=desk.path)
    assert answer.out.strip() == "200", answer


def status(cluster: Cluster, node: str, url: str, user: str = "alice") -> str:
    """Return the code by HTTP that a user of the node gets."""
    return cluster.alice(["python3", "-c", OPEN, url], node=node, user=user).out.strip()


def a_service(cluster: Cluster, desk: Desk, *words: str, by_proxy: bool = False) -> None:
    """A batch job on two nodes, whose token no other user gets."""
    programs(desk)
    line = ["serve", "--detach", "-N", "2", "--token", "SERVER_TOKEN", "--page", "/lab?token={token}", *words]
    program = ["sh", "-c", '[ "$1" = 0 ] || exec sleep 600; exec python3 server.py "$2" 1', "it"]
    given = cluster.alice(["mnrun", *line, "--", *program, "{node_rank}", "{port}"], cwd=desk.path)
    assert given.code == 0, given
    job = given.out.strip()
    found = ready(cluster, job)
    node, page = found["node"], found["page"]
    token = page.partition("token=")[2]
    assert HEX.fullmatch(token)
    shown = cluster.alice(["mnrun", "serve", "--show", job]).out
    assert page in shown
    if by_proxy:
        through(cluster, desk, shown, page)
    (view,) = json.loads(cluster.alice(["mnrun", "status", "--json", job]).out)["jobs"]
    assert view["service"] == f"serves {node}:{found['port']}"
    assert status(cluster, node, page) == "200"
    assert status(cluster, node, page.partition("?")[0], "bob") == "403"
    # A stranger finds the token neither in a list of processes nor in a file.
    seen = cluster.alice(["sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ"], node=node, user="bob").out
    seen += cluster.alice(
        ["sh", "-c", f"cat /home/alice/.mnrun/jobs/{job}/*/service /tmp/mnrun.*/service"], user="bob"
    ).out
    seen += cluster.alice(
        ["cat", *cluster.alice(["sh", "-c", "ls *.out"], cwd=desk.path).out.split()], cwd=desk.path
    ).out
    assert f"server.py\0{found['port']}" in seen
    assert token not in seen
    assert cluster.alice(["mnrun", "serve", "--show", job], user="bob").code == 123
    assert cluster.alice(["mnrun", "cancel", job]).code == 0
    assert cluster.alice(["mnrun", "wait", job]).code == 143


def beside_a_job(cluster: Cluster, desk: Desk, *words: str) -> None:
    """A service beside a batch job, which no other user gets."""
    programs(desk)
    line = ["mnrun", "submit", "-J", "around", "-N", "2", "-n", "4", *words, "sh", "-c", "echo up; sleep 600"]
    job = cluster.alice(line, cwd=desk.path).out.strip()
    beside(cluster, job, ("python3", f"{desk.path}/server.py"))
    program = ("--", "python3", f"{desk.path}/server.py", "{port}", "1")
    assert cluster.alice(["mnrun", "serve", "--beside", "around", *program], user="bob").code == 2
    assert cluster.alice(["mnrun", "serve", "--beside", job, *program], user="bob").code in (2, 123)


def beside(
    cluster: Cluster,
    job: str,
    server: Sequence[str],
    around: Sequence[str] = (),
    end: Callable[[], object] | None = None,
) -> None:
    """A service on the second node of a job with the name `around`, for its user alone, and its end with the job, which
    is a cancel unless `end` says another.

    `server` are the words of server.py, and `around` those before each line of mnrun. --full ends one by a signal, and
    one that nobody asks."""
    names: list[str] = []  # PBS shows no output before the end, and not each scheduler has an order of nodes

    def mnrun(*words: str) -> Result:
        return cluster.alice([*around, "mnrun", *words])

    def there() -> bool:
        asked = mnrun("exec", "--all", job, "--", "uname", "-n")
        names[:] = [line.partition("| ")[2] for line in asked.out.splitlines()]
        return asked.code == 0

    wait_for(there, "a job")
    serve = ["mnrun", "serve", "--beside", "around", "--token", "SERVER_TOKEN", "--page", "/?token={token}"]
    first = mnrun("exec", job, "--", "uname", "-n").out.strip()
    last = next(node for node in names if node != first)
    program = ["--", *server, "{port}", "1"]

    def begun(*more: str) -> Any:
        return cluster.running([*around, *serve, *more, *program])

    def serving() -> list[Process]:
        return [p for p in cluster.processes() if server[-1] in p.argv]

    with ExitStack() as places:
        service = places.enter_context(begun("--node", last))
        found = ready(cluster, job, around)
        assert found["node"] == last
        assert status(cluster, last, found["page"]) == "200"
        assert status(cluster, last, found["page"].partition("?")[0], "bob") == "403"
        assert mnrun("exec", "around", "--", "true").code == 0
        if full():
            launcher = next(p for p in cluster.processes() if p.node == LOGIN and "--beside" in p.argv)
            launcher.send(signal.SIGINT)
            assert service.end().code == 130
            assert not serving()
            assert cluster.alice([*around, *serve, "--idle", "1", *program]).code == 0
            service = places.enter_context(begun())
            ready(cluster, job, around)
        if end is None:
            assert mnrun("cancel", job).code == 0
        else:
            end()
        assert service.end().code == 0
    wait_for(lambda: not serving(), "an end")
    assert mnrun("serve", "--beside", job, *program).code == 2

"""A site with a batch system by a stand-in for its commands, in the home of a desk, and tests of it that hold for each.

A stand-in runs on two nodes of the cluster of Slurm, of which nobody asks Slurm for any.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from mnrun.schedulers import SCHEDULERS
from published import checked

from . import services
from .batch import SIZE, programs
from .cells import HELLO, OMPI5, full
from .reports import check, tells
from .stage import Cluster, Desk, Result, wait_for
from .test_proxy import entered

NODES = "node01 node02"
SLEEP = ("--image", OMPI5, "--", "sleep", "300")


class Site:
    """A site whose user has this desk as home. The program `player` plays the `names` there."""

    def __init__(self, cluster: Cluster, desk: Desk, player: ModuleType, names: Sequence[str], *more: str) -> None:
        system = player.__name__.rpartition(".")[2]
        around = (f"HOME={desk.path}", f"PATH={desk.path}/bin:/usr/local/bin:/usr/bin:/bin")
        self.cluster, self.desk, self.system = cluster, desk, system
        self.environ = (*around, f"{system.upper()}_HOSTS={NODES}", *more)
        self("mkdir", "-p", "bin", ".config/mnrun")
        desk.put(f"bin/{system}.py", Path(str(player.__file__)).read_bytes(), 0o755)
        desk.put(".config/mnrun/config.toml", f'scheduler = "{system}"\npoll = 2\n')
        self("sh", "-c", f'for name; do ln -s {system}.py "bin/$name"; done', "sh", *names)

    def __call__(self, *words: str) -> Result:
        return self.cluster.alice(["env", *self.environ, *words], cwd=self.desk.path)

    def submit(self, *words: str) -> str:
        result = self("mnrun", "submit", *words)
        assert result.code == 0, result
        return result.out.strip()

    def running(self, *words: str) -> str:
        """Return a submitted job whose ranks run."""
        job = self.submit(*words)
        wait_for(lambda: self("mnrun", "exec", job, "--", "true").code == 0, "running")
        return job

    def clean(self) -> None:
        assert self.cluster.wait_clean(30, besides="/desk.") == []

    def without_its_second_node(self) -> None:
        """Switch off the second node of a job that runs, and begin another one after that."""
        job = self.running("-N", "2", *SLEEP)
        self.cluster.tool("kill", "node02")
        try:
            ended = self("mnrun", "wait", job)
        finally:
            self.cluster.tool("heal", "node02")
            self.cluster.restarted("node02")
        assert (ended.code, "node02" in ended.err) == (121, True), ended
        assert self("mnrun", "-N", "2", "--image", OMPI5, "--", "true").code == 0  # it takes away what the node had
        self.clean()


@pytest.mark.parametrize("words", [(), ("--mode", "outside-in"), ("--runtime", "host", "--launcher", "env")])
def test_cell(site: Site, words: tuple[str, ...]) -> None:
    """From outside of jobs: mnrun submits, follows, and returns the code."""
    program = ("--", "hostname") if "host" in words else ("--image", OMPI5, "--", HELLO)
    result = site("mnrun", *SIZE, *words, *program)
    assert result.code == 0, result
    if "host" in words:
        assert sorted(programs(result.out).split()) == ["node01", "node01", "node02", "node02"], result
    else:  # prted may warn of setpgid, too
        ranks = b"".join(line for line in result.raw.splitlines(True) if line.startswith(b"rank "))
        check(Result(result.code, ranks, result.err), *NODES.split())
    site.clean()


def test_a_job_that_runs(site: Site) -> None:
    watched = ("-N", "2", "-t", "30", "--watch", "1")
    job = site.running(*watched, "--image", OMPI5, "--", "sh", "-c", "echo up; exec sleep 300")
    used = checked("top", site("mnrun", "top", "--once", "--json", job).out)
    assert sorted(rank["rank"] for node in used["nodes"] for rank in node["ranks"]) == [0, 1], used
    assert site("mnrun", "exec", job, "--node", "node02", "--", "hostname").out.split() == ["node02"]
    wait_for(lambda: "up" in site("mnrun", "logs", job).out.split(), "heard while it runs")
    if SCHEDULERS[site.system].BINARY:
        entered(site, site.desk, f"mnrun-{job}", "node01", site.desk.path)
    else:
        assert site("mnrun", "proxy", job).code == 122
    status = site("mnrun", "status", job)
    assert "running" in status.out, status
    assert "node[01-02]" in status.out, status
    cancelled = site("mnrun", "cancel", job)
    assert cancelled.code == 0, cancelled
    assert site("mnrun", "wait", job).code == 143
    assert "cancelled" in site("mnrun", "status", job).out
    tells(checked("report", site("mnrun", "report", job, "--json").out), 143, "echo up; exec sleep 300", OMPI5, 2)
    site.clean()


def test_a_service(site: Site) -> None:
    """It answers its user alone, and ends by cancel, or where nobody asks it for long."""
    services.programs(site.desk)
    shape = ("-N", "2", "--runtime", "host", "--token", "SERVER_TOKEN", "--page", "/?token={token}")
    program = ("--", "python3", f"{site.desk.path}/server.py", "{first:{port}}", "{others:0}", "0")
    job = site("mnrun", "serve", "--detach", *shape, *program).out.strip()
    found = services.ready(site.cluster, job, ("env", *site.environ))
    assert services.status(site.cluster, found["node"], found["page"]) == "200"
    assert services.status(site.cluster, found["node"], found["page"].partition("?")[0], "bob") == "403"
    assert f"serves {found['node']}:{found['port']}" in site("mnrun", "status", job).out
    assert site("mnrun", "cancel", job).code == 0
    assert site("mnrun", "wait", job).code == 143
    if full():
        assert site("mnrun", "serve", "--idle", "1", *shape, *program).code == 0
    site.clean()


@pytest.mark.skipif(not full(), reason="with --full")
def test_a_service_beside_a_job(site: Site) -> None:
    services.programs(site.desk)
    job = site.running("-J", "around", "-N", "2", "--runtime", "host", "--", "sleep", "600")
    services.beside(site.cluster, job, ("python3", f"{site.desk.path}/server.py"), ("env", *site.environ))
    site.clean()


def test_nothing_is_left_of_a_killed_launcher(site: Site) -> None:
    job = site.running("-N", "2", *SLEEP)
    site.cluster.launcher().send(signal.SIGKILL)
    assert site("mnrun", "wait", job).code == 137
    site.clean()

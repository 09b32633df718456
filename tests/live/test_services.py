"""JupyterLab and TensorBoard in a real browser, through ssh -L and through `mnrun proxy`: with --full alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .batch import forget
from .cells import full
from .services import PROGRAMS, ready, status
from .stage import LOGIN, Cluster, Desk, wait_for

pytestmark = pytest.mark.skipif(not full(), reason="builds two large images")
SERVICES = "/images/services.sif"
SSH = ("ssh", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-N")


def seen(cluster: Cluster, desk: Desk, job: str, what: str, *way: str) -> str:
    """Return what the browser of the login node sees through a tunnel."""
    service = ready(cluster, job)
    page, port = service["page"] + ("&reset" if what == "jupyter" else ""), str(service["port"])
    with cluster.running([*SSH, "-L", f"{port}:127.0.0.1:{port}", *way]):
        wait_for(lambda: status(cluster, LOGIN, service["page"]) == "200", "a tunnel")
        line = [
            "env",
            f"TMPDIR={desk.path}",
            "apptainer",
            "-q",
            "exec",
            "/images/browser.sif",
            "python3",
            "browse.py",
            page,
            what,
        ]
        result = cluster.alice(line, cwd=desk.path, seconds=400)
    assert result.code == 0, result
    return result.out


@contextmanager
def closed(cluster: Cluster, node: str) -> Iterator[None]:
    """Close every port of a node to other machines, but for that of slurmd or sge_execd."""
    refused = ("!", "-i", "lo", "-p", "tcp", "--syn", "-j", "REJECT")
    for rule in (*(("-p", "tcp", "--dport", port, "-j", "ACCEPT") for port in ("6818", "6445")), refused):
        cluster.root(node, "iptables", "-A", "INPUT", *rule)
    try:
        assert cluster.alice(["ssh", "-o", "ConnectTimeout=5", node, "true"]).code == 255
        yield
    finally:
        cluster.root(node, "iptables", "-F", "INPUT")


def in_a_browser(cluster: Cluster, desk: Desk, what: str, *words: str) -> None:
    """A batch job shows what it should through both tunnels, the second one with every port of the node closed."""
    cluster.tool("images", "services", "browser")
    for name in ("browse.py", "losses.py"):
        cluster.put(f"{desk.path}/{name}", (PROGRAMS / name).read_text())
    words = (*words, "--", "--logdir", "runs") if what == "tensorboard" else words
    cluster.alice(["apptainer", "-q", "exec", SERVICES, "python3", "losses.py"], cwd=desk.path)
    line = ["mnrun", "serve", what, "--detach", "-N", "1", "--image", SERVICES, *words]
    job = cluster.alice(line, cwd=desk.path).out.strip()
    shown = {"jupyter": "42 by a cell", "tensorboard": "loss"}[what]
    try:
        service = ready(cluster, job)
        assert shown in seen(cluster, desk, job, what, service["node"])
        with closed(cluster, service["node"]):
            assert shown in seen(cluster, desk, job, what, "-o", f"ProxyCommand=mnrun proxy {job}", "job")
        if what == "jupyter":
            address = f"http://127.0.0.1:{service['port']}/api/status"
            assert status(cluster, service["node"], address, "bob") == "403"
    finally:
        cluster.alice(["mnrun", "cancel", job])
        cluster.alice(["mnrun", "wait", job])
        forget(cluster)
        left = (f"/home/alice/.{name}" for name in ("cache", "config", "ipython", "jupyter", "local", "pki"))
        cluster.root(LOGIN, "rm", "-rf", *left)  # of the programs


@pytest.mark.parametrize("what", ["jupyter", "tensorboard"])
def test_services_in_a_browser(cluster: Cluster, desk: Desk, what: str) -> None:
    in_a_browser(cluster, desk, what)


@pytest.mark.xdist_group("grid-engine")
@pytest.mark.parametrize("what", ["jupyter", "tensorboard"])
def test_services_of_grid_engine_in_a_browser(grid: Cluster, what: str) -> None:
    with grid.desk() as desk:  # it takes as many clients into a node as the job has slots there
        in_a_browser(grid, desk, what, "-c", "4", "-t", "15")
    wait_for(lambda: not grid.jobs(), "an end")

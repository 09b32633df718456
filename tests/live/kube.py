"""What tests of Kubernetes 1.20 share: a real server with two nodes, an image for nodes, and one for launchers."""

from __future__ import annotations

import json
import re
import shutil
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from rehearsal import images, unpacked

from .cells import full
from .reports import ranks
from .services import PROGRAMS, status
from .stage import LOGIN, TOP, Cluster, Desk, Job, Result, wait_for

FULL = pytest.mark.skipif(not full(), reason="Kubernetes is compiled first: --full")
FIRST = [pytest.mark.xdist_group("kube"), FULL]  # about half of the time, and the rest is on a second cluster
SECOND = [pytest.mark.xdist_group("kube_second"), FULL]
BARE = "localhost/nosshd:1"  # neither sshd nor mnrun
LOOK = 0.3  # seconds between two questions to the server
SHAPE = ("-N", "2", "--ntasks-per-node", "2")
UP = ("sh", "-c", "echo up; exec sleep 600")
TOKEN = ("--token", "SERVER_TOKEN", "--page", "/?token={token}")
LAUNCHER, SAVED = "localhost/mnrun:1", "/root/mnrun.tar"
BUILD = f"""
set -e
export TMPDIR=/root
docker load -q -i /images/slim.docker
cd /root/mnrun
/opt/mnrun/venv/bin/pip -q wheel --no-deps --no-build-isolation -w . ./src
docker build -q --network=none --build-arg BASE=localhost/slim -f Containerfile -t {LAUNCHER} .
docker save -o {SAVED} {LAUNCHER}
"""


@pytest.fixture
def cluster(kube: Cluster) -> Iterator[Cluster]:
    """A site whose verbs speak with Kubernetes."""
    kube.root(LOGIN, "install", "-d", "/etc/mnrun")
    kube.path("/etc/mnrun/config.toml").write_text('scheduler = "kubernetes"\npoll = 2\n')
    yield kube
    kube.root(LOGIN, "rm", "-r", "/etc/mnrun")


class Lab:
    """The namespace of the tests, and alice in it."""

    def __init__(self, cluster: Cluster, desk: Desk) -> None:
        self.cluster, self.desk = cluster, desk

    def mnrun(self, *words: str, user: str = "alice") -> Result:
        return self.cluster.alice(["mnrun", *words], user=user, cwd=self.desk.path if user == "alice" else "")

    def run(self, *words: str, image: str = BARE, verb: str = "run") -> Result:
        return self.mnrun(verb, *SHAPE, "--image", image, *words)

    def plan(self, form: str, image: str, *words: str) -> str:
        done = self.run("--format", form, *words, verb="plan", image=image)
        assert done.code == 0, done
        return done.out

    def alice(self, *words: str) -> str:
        done = self.cluster.alice(["kubectl", *words], cwd=self.desk.path)
        assert done.code == 0, done
        return done.out

    def kubectl(self, *words: str) -> str:
        return self.cluster.root(LOGIN, "kubectl", "-n", "lab", *words)

    def pods(self) -> list[dict[str, Any]]:
        return list(json.loads(self.kubectl("get", "pods", "-o", "json"))["items"])

    @contextmanager
    def running(self, *words: str, image: str = BARE, program: Sequence[str] = UP) -> Iterator[tuple[Job, str]]:
        """Yield a run whose four ranks are up, and the name of its job."""
        line = ["mnrun", *SHAPE, "--image", image, *words, "--", *program]
        with self.cluster.running(line) as job:
            said = job.saying(lambda result: result.out.count("up\n") == 4, "up")
            yield job, re.findall(r"mnrun: job ([a-z0-9-]+):", said.err)[0]

    def left(self, name: str) -> str:
        """Return the objects whose names begin with that of a job."""
        kinds = "pods,jobs,configmaps,secrets,services,networkpolicies"
        found = self.kubectl("get", kinds, "-o", "name").split()
        return " ".join(one for one in found if one.partition("/")[2].startswith(name))

    def wait_gone(self, name: str) -> None:
        wait_for(lambda: not self.left(name), "removed", 60, lambda: self.left(name), LOOK)

    def node(self, pod: str) -> str:
        return self.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")


@pytest.fixture
def lab(cluster: Cluster, desk: Desk) -> Lab:
    return Lab(cluster, desk)


def spoke(result: Result, code: int = 0) -> None:
    """hello ended well: four ranks, two on each of two hosts."""
    assert result.code == code, result
    found = ranks(result)
    assert [(rank.rank, rank.size, rank.total) for rank in found] == [(number, 4, 10) for number in range(4)], result
    assert [rank.host for rank in found] == [found[0].host] * 2 + [found[2].host] * 2, result
    assert found[0].host != found[2].host, result


def server(late: int) -> tuple[str, ...]:
    """Return the words of server.py, which answers 503 for so many seconds, and of a worker on the other nodes."""
    text = b64encode((PROGRAMS / "server.py").read_bytes()).decode()
    program = ("python3", "-c", f"import base64; exec(base64.b64decode('{text}'))", "{port}", str(late))
    return ("sh", "-c", '[ "$0" = 0 ] || { echo loading; exec sleep 600; }; exec "$@"', "{node_rank}", *program)


def answers(lab: Lab, name: str, page: str) -> None:
    """A service answers through the tunnel that `serve --show` prints, and to nobody without its token."""
    shown = lab.mnrun("serve", "--show", name).out
    tunnel = next(line.split()[1:] for line in shown.splitlines() if line.startswith("tunnel:"))
    with lab.cluster.running(tunnel):
        wait_for(lambda: status(lab.cluster, LOGIN, page) == "200", "a tunnel", every=LOOK)
        assert status(lab.cluster, LOGIN, page.partition("?")[0]) == "403"


@pytest.fixture(scope="session")
def launcher_built(kube: Cluster) -> None:
    """Build the image of containers/mnrun. Its base brings along what it installs."""
    first = kube.nodes[0]
    kube.tool("images", "slim")
    unpacked.ensure(images.shelf_of_all(), "slim")
    place = kube.path("/root/mnrun", first)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(TOP / "containers/mnrun", place)
    shutil.copytree(TOP, place / "src", ignore=shutil.ignore_patterns(".git", "tests", "build", "dist", "__pycache__"))
    built = kube.alice(["sh", "-c", BUILD], node=first, user="root", seconds=400)
    assert built.code == 0, built
    for node in kube.nodes[1:]:
        shutil.copyfile(kube.path(SAVED, first), kube.path(SAVED, node))
        kube.root(node, "docker", "load", "-q", "-i", SAVED)


@pytest.fixture
def launcher_image(kube: Cluster, launcher_built: None) -> str:
    """The image of containers/mnrun, on each node. One that has lost its power has lost its images."""
    for node in kube.nodes:
        if kube.alice(["docker", "image", "inspect", LAUNCHER], node=node, user="root").code:
            kube.root(node, "docker", "load", "-q", "-i", SAVED)
    return LAUNCHER

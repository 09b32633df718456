"""Images that are there: pulled to the cache or to a file, listed, looked into, compared between nodes, removed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cells import OMPI5
from .reports import refusal
from .stage import LOGIN, Cluster, Desk

pytestmark = pytest.mark.live

SMALL = "login:5000/small:1"
CACHE = "/home/alice/.mnrun/cache"


@pytest.fixture
def registry(cluster: Cluster) -> Iterator[None]:
    """Both registries on the login node, and an empty cache of alice's."""
    cluster.tool("registry")
    cluster.root(LOGIN, "rm", "-rf", CACHE)
    yield
    cluster.root(LOGIN, "rm", "-rf", CACHE)


def test_image_pull_ls_gc(cluster: Cluster, desk: Desk, registry: None) -> None:
    """Two tags of an image are one file, a copy of which is the user's own; what no job uses can be removed."""
    first = cluster.alice(["mnrun", "image", "pull", SMALL])
    assert first.code == 0 and first.out.startswith(f"{CACHE}/sha256-"), first
    cluster.root(LOGIN, "skopeo", "copy", "-q", f"docker://{SMALL}", "docker://login:5000/small:same")
    other = cluster.alice(["mnrun", "image", "pull", "login:5000/small:same", "-o", "small.sif"], cwd=desk.path)
    assert other.code == 0 and other.out == f"{desk.path}/small.sif\n" and desk.names() == ["small.sif"], other
    assert desk.read("small.sif") == cluster.path(first.out.strip()).read_bytes()
    listed = cluster.alice(["mnrun", "image", "ls"]).out.splitlines()
    assert len(listed) == 2 and SMALL in listed[1] and "small:same" in listed[1], listed
    assert listed[1].endswith(first.out.strip())
    again = cluster.alice(["mnrun", "image", "pull", SMALL])
    assert (again.code, again.out, again.err) == (0, first.out, "")
    cluster.root(LOGIN, "touch", "-d", "3 days ago", first.out.strip())
    removed = cluster.alice(["mnrun", "image", "gc", "--older", "2d"])
    assert removed.code == 0 and first.out.strip() in removed.out, removed
    empty = cluster.alice(["mnrun", "image", "ls"])
    assert empty.out == "" and "no images in" in empty.err, empty


WRONG = {
    "no such tag": (("pull", "login:5000/small:7"), 125, "there is no docker://login:5000/small:7"),
    "a file": (("pull", OMPI5), 2, "is a file or directory, and needs no pull"),
    "not pulled": (("inspect", "login:5000/small:9"), 2, "mnrun image pull login:5000/small:9"),
    "no file": (("verify", "/none.sif"), 2, "/none.sif does not exist"),
    "no image": (("inspect", "/etc/passwd"), 125, "no container of /etc/passwd answers"),
}


@pytest.mark.parametrize("case", WRONG)
def test_image_verbs_refuse(cluster: Cluster, registry: None, case: str) -> None:
    words, code, said = WRONG[case]
    refusal(cluster.alice(["mnrun", "image", *words]), code, said)


def test_image_inspect_on_a_node(cluster: Cluster) -> None:
    """In a job its first node answers, and the verdict is about that node."""
    done = cluster.alice(["salloc", "-Q", "-N1", "-w", "node02", "mnrun", "image", "inspect", OMPI5])
    assert done.code == 0 and done.out.splitlines()[-1] == "  asked on node02", done


def test_image_verify(cluster: Cluster, desk: Desk) -> None:
    """All nodes see the same file, or are named by digest."""
    job = ["salloc", "-Q", "-N2", "-w", "node01,node02", "mnrun", "image", "verify"]
    same = cluster.alice([*job, OMPI5])
    assert same.code == 0 and same.out.splitlines()[1].startswith("node[01-02]  sha256:"), same
    try:
        cluster.put("/tmp/own.sif", "one", node="node01")
        lacking = cluster.alice([*job, "/tmp/own.sif"])
        assert lacking.code == 121 and "not on every node: node02: no file" in lacking.err, lacking
        cluster.put("/tmp/own.sif", "two", node="node02")
        differing = cluster.alice([*job, "/tmp/own.sif"])
        assert differing.code == 121 and "not the same on all nodes: node01: sha256:" in differing.err, differing
    finally:
        for node in ("node01", "node02"):
            cluster.root(node, "rm", "-f", "/tmp/own.sif")


def test_image_verify_signature(cluster: Cluster, desk: Desk) -> None:
    """A key demands a signature, and finds a change in a signed image."""
    keys = "openssl genpkey -algorithm RSA -out private.pem && openssl pkey -in private.pem -pubout -out public.pem"
    made = cluster.alice(
        ["sh", "-ec", f"{keys}; cp {OMPI5} a.sif; apptainer sign --key private.pem a.sif"], cwd=desk.path
    )
    assert made.code == 0, made
    verify = ["mnrun", "image", "verify"]
    good = cluster.alice([*verify, "a.sif", "--key", "public.pem"], cwd=desk.path)
    assert good.code == 0 and good.out.rstrip().endswith("valid"), good
    unsigned = cluster.alice([*verify, OMPI5], cwd=desk.path)
    assert unsigned.code == 0 and unsigned.out.rstrip().endswith("none"), unsigned
    demanded = cluster.alice([*verify, OMPI5, "--key", "public.pem"], cwd=desk.path)
    assert demanded.code == 125 and "has no valid signature: login: integrity: signature not found" in demanded.err
    with open(cluster.path(f"{desk.path}/a.sif"), "r+b") as file:
        file.seek(1_000_000)
        file.write(b"another")
    changed = cluster.alice([*verify, "a.sif", "--key", "public.pem"], cwd=desk.path)
    assert changed.code == 125 and "a.sif has no valid signature" in changed.err, changed

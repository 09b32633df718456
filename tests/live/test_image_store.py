"""Images that are there: pulled to the cache or to a file, listed, looked into, compared between nodes, removed."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest

from .cells import OMPI5
from .reports import refusal
from .stage import LOGIN, TOP, Cluster, Desk, below, wait_for

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


def test_image_with_a_shell_and_cat_alone(cluster: Cluster, registry: None) -> None:
    """(R1) Its ranks run on a node, and end. What it cannot do is refused in one line, before anything runs."""
    for start in ([], ["--launcher", "env"]):
        result = cluster.mnrun("-Q", *start, "--image", SMALL, "--", "cat", "/etc/version", nodes=1)
        assert (result.code, result.out, result.err) == (0, "1\n" * 2, ""), result
    for words, nodes, code in (([], 2, 121), (["--label"], 1, 125)):
        result = cluster.mnrun("-Q", *words, "--image", SMALL, "--", "cat", "/etc/version", nodes=nodes, tasks=1)
        refusal(result, code, "mkfifo")


# An image of two layers, whose digests go to standard output.
LAYERS = """\
cd "$(mktemp -d)"
head -c 8M /dev/urandom >first
head -c 56M /dev/urandom >second
for name in first second; do tar -cf $name.tar $name && sha256sum <$name.tar; done
python3 -IS /etc/rehearsal/oci.py oci first.tar second.tar
skopeo copy -q --preserve-digests oci:oci docker://login:5000/layers:1
rm -rf "$PWD"
"""
GATE, OPEN = TOP / "tests/faults/gate.py", "/run/store.open"
# Bytes after which the door holds. Apptainer asks for both layers at once, and all of the first is among these.
HELD = 50 << 20


def sent(cluster: Cluster, digest: str) -> list[int]:
    """The bytes that the registry has sent for each GET of a layer."""
    log = cluster.path("/var/lib/rehearsal/open.log").read_text()
    return [int(size) for size in re.findall(rf'"GET /v2/layers/blobs/sha256:{digest} HTTP/\S+ 200 (\d+)', log)]


def test_image_pull_is_cut_off(cluster: Cluster, registry: None) -> None:
    """After a kill in the middle, the next pull does not take the complete layer again. No half a layer stays.

    Apptainer 1.4.5 asks for every layer, and hangs up where it has one: the registry has sent the first 4 MiB by then.
    """
    first, _, second, _ = cluster.root(LOGIN, "sh", "-euc", LAYERS).split()
    refs, pull = cluster.path(f"{CACHE}/refs"), ["mnrun", "image", "pull", "login:5002/layers:1"]
    cluster.put("/run/store.gate.py", GATE.read_bytes(), uid=0)
    gate = ["python3", "/run/store.gate.py", LOGIN, "5002", "5000", OPEN, str(HELD)]
    try:
        with cluster.running(gate, user="root") as door:
            door.saying(lambda said: "listening" in said.out, "listening")
            with cluster.running(pull) as job:
                door.saying(lambda said: "held" in said.out, "held")
                wait_for(lambda: any(refs.glob(f"*.layers/{first}")), "half pulled", 30, lambda: str(job.so_far()))
                cluster.launcher().send(signal.SIGKILL)
                assert job.end().code == 128 + signal.SIGKILL
            wait_for(lambda: not list(refs.glob("*.lock*")), "free of locks")
            wait_for(lambda: [p.name for p in below(refs.parent) if p.is_file()] == [first], "rid of half a layer")
            cluster.put(OPEN, "", uid=0)
            done = cluster.alice(pull)
            assert done.code == 0 and not list(refs.glob("*.layers")), done
    finally:
        cluster.root(LOGIN, "rm", "-f", OPEN, "/run/store.gate.py")
    wait_for(lambda: len(sent(cluster, first)) == 2, "logged by the registry")
    whole, rest = sent(cluster, first)
    assert whole > 8 << 20 and rest < 6 << 20
    assert max(sent(cluster, second)) > 56 << 20


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


# A stand-in, because no package has cosign: it knows the signature of one image, and a key by its text.
COSIGN = """\
#!/bin/sh
[ "$1 $2" = "verify --key" ] || exit 2
grep -q PUBLIC "$3" || { echo "Error: $3 is no key" >&2; exit 1; }
if [ "$4" = "login:5000/small@$(cat /run/signed)" ]; then exit 0; fi
echo "Error: no signatures found" >&2
echo "main.go:69: error during command execution: no signatures found" >&2
exit 10
"""


def test_image_verify_by_cosign(cluster: Cluster, desk: Desk, registry: None) -> None:
    """The signature of an image in a registry is for the digest that the cached file has there."""
    desk.put("cosign.pub", "-----BEGIN PUBLIC KEY-----\n")
    verify = ["mnrun", "image", "verify", SMALL, "--key", "cosign.pub"]
    assert cluster.alice(["mnrun", "image", "pull", SMALL]).code == 0
    refusal(cluster.alice(verify, cwd=desk.path), 2, "in its registry, and cosign is not on PATH here; install cosign")
    try:
        cluster.put("/usr/local/bin/cosign", COSIGN, 0o755, LOGIN)
        cluster.put("/run/signed", "sha256:none\n", 0o644, LOGIN)
        unsigned = cluster.alice(verify, cwd=desk.path)
        assert unsigned.code == 125 and "has no valid signature: login: no signatures found" in unsigned.err, unsigned
        tag = ("skopeo", "inspect", "--format", "{{.Digest}}", f"docker://{SMALL}")
        cluster.put("/run/signed", cluster.root(LOGIN, *tag), 0o644, LOGIN)
        signed = cluster.alice(verify, cwd=desk.path)
        assert signed.code == 0 and signed.out.rstrip().endswith("  valid"), signed
    finally:
        cluster.root(LOGIN, "rm", "-f", "/usr/local/bin/cosign", "/run/signed")

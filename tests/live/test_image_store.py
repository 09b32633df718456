"""Images that are there: pulled to the cache or to a file, listed, looked into, compared between nodes, removed."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from hashlib import sha256

import pytest

from published import checked

from .cells import OMPI5
from .reports import refusal
from .stage import LOGIN, TOP, Cluster, Desk, below, wait_for
from .terminal import Terminal

SMALL = "login:5000/small:1"
CACHE = "/home/alice/.mnrun/cache"


@pytest.fixture
def registry(cluster: Cluster) -> Iterator[None]:
    cluster.tool("registry")
    cluster.root(LOGIN, "rm", "-rf", CACHE)
    yield
    cluster.root(LOGIN, "rm", "-rf", CACHE)


def test_image_pull_ls_clean(cluster: Cluster, desk: Desk, registry: None) -> None:
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
    removed = cluster.alice(["mnrun", "clean", "--images", "--older", "2d"])
    assert removed.code == 0 and first.out.strip() in removed.out, removed
    empty = cluster.alice(["mnrun", "image", "ls"])
    assert empty.out == "" and "no images in" in empty.err, empty


def test_image_rm(cluster: Cluster, desk: Desk, registry: None) -> None:
    """What a job runs in stays until its end. A launch after that pulls it anew."""
    pulled = cluster.alice(["mnrun", "image", "pull", SMALL])
    file, remove = pulled.out.strip(), ["mnrun", "image", "rm", SMALL]
    listed = checked("image ls", cluster.alice(["mnrun", "image", "ls", "--json"]).out)["images"]
    assert [image["file"] for image in listed] == [file] and listed[0]["size"] == cluster.path(file).stat().st_size
    refusal(cluster.alice(["mnrun", "image", "rm", "login:5000/smal:1"]), 2, f"did you mean {SMALL}?")
    waits = ["--image", SMALL, "--launcher", "env", "--", "sh", "-c", "echo up; kill -STOP $$"]
    with cluster.running(cluster.launch(*waits, nodes=1, tasks=1)) as job:
        job.saying(lambda said: "up" in said.out, "up")
        refusal(cluster.alice(remove), 122, "is in use by job")
        assert cluster.path(file).exists()
        job.kill()
    wait_for(lambda: cluster.alice(remove).code == 0, "removed")
    assert [path for path in below(cluster.path(CACHE)) if path.is_file() and path.parent.name != "facts"] == []
    again = cluster.mnrun("-Q", *waits[:4], "--", "cat", "/etc/version", nodes=1, tasks=1)
    assert (again.code, again.out) == (0, "1\n"), again


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
    log = cluster.path("/var/lib/rehearsal/open.log").read_text()
    return [int(size) for size in re.findall(rf'"GET /v2/layers/blobs/sha256:{digest} HTTP/\S+ 200 (\d+)', log)]


def test_image_pull_is_cut_off(cluster: Cluster, registry: None) -> None:
    first, _, second, _ = cluster.root(LOGIN, "sh", "-euc", LAYERS).split()
    refs, pull = cluster.path(f"{CACHE}/refs"), ["mnrun", "image", "pull", "login:5002/layers:1"]
    cluster.put("/run/store.gate.py", GATE.read_bytes(), uid=0)
    gate = ["python3", "/run/store.gate.py", LOGIN, "5002", "5000", OPEN, str(HELD)]
    try:
        with cluster.running(gate, user="root") as door:
            door.saying(lambda said: "listening" in said.out, "listening")
            with Terminal(cluster.argv(LOGIN, "alice", pull)) as terminal:
                door.saying(lambda said: "held" in said.out, "held")
                terminal.expect(r"pulling: login: .*, [45]\d MB")
                wait_for(lambda: any(refs.glob(f"*.layers/{first}")), "half pulled", state=lambda: terminal.seen)
                cluster.launcher().send(signal.SIGKILL)
                assert terminal.end() == 128 + signal.SIGKILL
            wait_for(lambda: not list(refs.glob("*.lock*")), "free of locks")
            wait_for(lambda: [p.name for p in below(refs.parent) if p.is_file()] == [first], "rid of half a layer")
            cluster.put(OPEN, "", uid=0)
            done = cluster.alice(pull)
            assert done.code == 0 and not list(refs.glob("*.layers")), done
            size = cluster.path(done.out.strip()).stat().st_size
            said = re.search(r", ([\d.]+) MB, after", done.err)
            assert len(done.err.splitlines()) == 2 and said and abs(float(said[1]) - size / 1e6) < 0.1, done
    finally:
        cluster.root(LOGIN, "rm", "-f", OPEN, "/run/store.gate.py")
    wait_for(lambda: len(sent(cluster, first)) >= 2, "logged by the registry")
    whole, *rest = sent(cluster, first)  # Apptainer asks for a layer that it has, and hangs up
    assert whole > 8 << 20 and max(rest) < whole
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


# An image with a PyTorch of CUDA, of which mnrun reads one file.
TORCH = f"""\
Bootstrap: localimage
From: {OMPI5}
%post
  place=/usr/local/lib/python3.13/dist-packages/torch
  mkdir -p $place
  printf "__version__ = '2.6.0+cu124'\\ncuda: Optional[str] = '12.4'\\n" >$place/version.py
"""


def test_image_inspect(cluster: Cluster, desk: Desk) -> None:
    desk.put("torch.def", TORCH)
    made = cluster.alice(["mnrun", "image", "build", ".", "-o", "torch.sif"], cwd=desk.path)
    assert made.code == 0, made
    for words in (["mnrun"], ["salloc", "-Q", "-N1", "mnrun"]):
        done = cluster.alice([*words, "image", "inspect", "--json", "torch.sif"], cwd=desk.path)
        found = checked("image inspect", done.out)
        assert found["size"] == cluster.path(f"{desk.path}/torch.sif").stat().st_size, done
        assert found["digest"] == f"sha256:{sha256(desk.read('torch.sif')).hexdigest()}", done
        assert (found["pytorch"], found["cuda"]) == ("2.6.0+cu124", "12.4"), done
        assert found["python"] == "3.13 (/usr/bin/python3)" and len(found["mpis"]) == 1, done


def test_image_inspect_on_a_node(cluster: Cluster) -> None:
    done = cluster.alice(["salloc", "-Q", "-N1", "-w", "node02", "mnrun", "image", "inspect", OMPI5])
    assert done.code == 0 and done.out.splitlines()[-1] == "  asked on node02", done


def test_image_verify(cluster: Cluster, desk: Desk) -> None:
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

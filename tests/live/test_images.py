"""Images of a registry: pulled before anything starts, once, and the same on every node; or one clear line."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from .cells import HELLO, full
from .reports import check, refusal
from .stage import LOGIN, Cluster, Desk, Result, below, wait_for
from .stranger import kill

OPEN, DOOR = "login:5000", "login:5001"  # the second one wants a login
CACHE = "/home/alice/.mnrun/cache"
OUTSIDE = ("--mode", "outside-in", "--launcher", "srun")
VERSION = ("--", "cat", "/etc/version")
LET_IN = {"APPTAINER_DOCKER_USERNAME": "alice", "APPTAINER_DOCKER_PASSWORD": "open sesame"}


@pytest.fixture(scope="module")
def registry(cluster: Cluster) -> None:
    cluster.tool("registry")


@pytest.fixture(autouse=True)
def cache(cluster: Cluster, registry: None) -> Iterator[str]:
    cluster.root(LOGIN, "rm", "-rf", CACHE)
    yield CACHE
    cluster.root(LOGIN, "rm", "-rf", CACHE)


def files(cluster: Cluster) -> list[str]:
    cache = cluster.path(CACHE)
    paths = (path.relative_to(cache) for path in sorted(below(cache)) if path.is_file())
    return [str(path) for path in paths if path.parts[0] not in ("facts", "sums")]


def small(cluster: Cluster, *words: str, reference: str = f"{OPEN}/small:1", nodes: int = 4, **more: object) -> Result:
    return cluster.mnrun(*OUTSIDE, *words, "--image", reference, *VERSION, nodes=nodes, tasks=1, **more)  # type: ignore[arg-type]


def test_images_are_converted_once_and_run(cluster: Cluster) -> None:
    """An image of Open MPI by reference: one node converts it, all run it; the next job asks nobody."""
    words = ("--mode", "inside-out", "--image", f"{OPEN}/mpi/ompi5:1", "--", HELLO)
    first = cluster.mnrun(*words)
    check(first, *cluster.nodes)
    assert f"pulling docker://{OPEN}/mpi/ompi5:1" in first.err, first
    held = files(cluster)
    assert len(held) == 2 and held[1].startswith("sha256-") and held[1].endswith(".sif"), held
    made = cluster.path(f"{CACHE}/{held[1]}").stat()
    again = cluster.mnrun(*words)
    check(again, *cluster.nodes)
    assert "pulling" not in again.err, again
    taken = cluster.path(f"{CACHE}/{held[1]}").stat()
    assert (taken.st_ino, taken.st_size) == (made.st_ino, made.st_size) and taken.st_mtime > made.st_mtime


def test_images_of_a_tag_that_moves(cluster: Cluster) -> None:
    tag = f"{OPEN}/small:moving"

    def move(version: str) -> None:
        cluster.root(LOGIN, "skopeo", "copy", "-q", f"docker://{OPEN}/small:{version}", f"docker://{tag}")

    move("1")
    assert small(cluster, reference=tag).out.split() == ["1"] * 4
    move("2")
    assert small(cluster, reference=tag).out.split() == ["1"] * 4
    assert small(cluster, "--pull", "always", reference=tag).out.split() == ["2"] * 4
    held = files(cluster)
    assert len(held) == 3, held
    same = small(cluster, "--pull", "always", reference=tag)
    assert same.out.split() == ["2"] * 4 and files(cluster) == held, same


def damage(path: Path, begin: int) -> None:
    """Overwrite a file from there on, as a disk may."""
    with open(path, "r+b") as file:
        file.seek(begin)
        file.write(bytes(path.stat().st_size - begin))


@pytest.mark.parametrize("reference", ["tag", "digest"])
def test_images_that_are_damaged(cluster: Cluster, reference: str) -> None:
    """R4: --pull always finds it by its sum. So does the launch after one whose container cannot start."""
    name = f"{OPEN}/small:1"
    if reference == "digest":
        tag = ("skopeo", "inspect", "--format", "{{.Digest}}", f"docker://{name}")
        name = f"{OPEN}/small@{cluster.root(LOGIN, *tag).strip()}"
    pull = ["mnrun", "image", "pull", "-Q", name]
    done = cluster.alice(pull)
    file = cluster.path(done.out.strip())

    def whole() -> bool:
        wanted = (file.parent / "sums" / file.name).read_text().split()[0]
        return file.read_bytes()[32:41] == b"SIF_MAGIC" and sha256(file.read_bytes()).hexdigest() == wanted

    damage(file, 40960)
    assert cluster.alice([*pull, "--pull", "always"]).out == done.out and whole()
    damage(file, 0)
    job = ("--mode", "inside-out", "--launcher", "env", "--image", name, *VERSION)
    refusal(cluster.mnrun("-Q", *job, nodes=1, tasks=1), 121, "is not a container image", "the next launch checks")
    again = cluster.mnrun("-Q", *job, nodes=1, tasks=1)
    assert (again.code, again.out) == (0, "1\n") and whole(), again
    made = file.stat().st_ino
    assert cluster.alice([*pull, "--pull", "always"]).code == 0 and file.stat().st_ino == made


def test_images_in_a_batch_script(cluster: Cluster, desk: Desk) -> None:
    words = ["submit", "--wait", "-N", "4", "-o", "%j.out", *OUTSIDE, "--image", f"{DOOR}/small:2", *VERSION]
    assigned = [f"{name}={value}" for name, value in LET_IN.items()]
    try:
        done = cluster.alice(["env", *assigned, "mnrun", *words], cwd=desk.path)
        said = desk.read(f"{done.out.strip()}.out").decode()
        assert done.code == 0 and [line for line in said.splitlines() if line.isdecimal()] == ["2"] * 4, (done, said)
        found = cluster.alice(["grep", "-rF", "open sesame", "/home/alice/.mnrun", desk.path])
        assert found.code == 1, found
        wrong = cluster.alice(["mnrun", *words[:-4], f"{DOOR}/small:9", *VERSION], cwd=desk.path)
        said = desk.read(f"{wrong.out.strip()}.out").decode()
        assert wrong.code == 125 and f"{DOOR} refuses the login" in said, (wrong, said)
        outcome = json.loads(cluster.path(f"/home/alice/.mnrun/jobs/{wrong.out.strip()}/0/outcome").read_text())
        assert outcome["code"] == 125
    finally:
        for folder in ("stage", "jobs"):
            cluster.root(LOGIN, "rm", "-rf", f"/home/alice/.mnrun/{folder}")


def test_images_on_hosts(cluster: Cluster) -> None:
    words = ["--hosts", "node01,node02", "--mode", "outside-in", "--image", f"{DOOR}/small:1"]
    assigned = [f"{name}={value}" for name, value in LET_IN.items()]
    waiting = ["sh", "-c", "echo version $(cat /etc/version) >&2; exec sleep 600"]
    with cluster.running(["env", *assigned, "mnrun", *words, "--", *waiting]) as job:
        job.saying(lambda said: said.err.count("version 1\n") == 2, "up")
        lines = [" ".join(p.argv) for p in cluster.processes() if p.node != LOGIN]
    assert lines and not [line for line in lines if "sesame" in line], lines


WRONG = {
    "no such tag": ((), f"{OPEN}/small:7", 125, (f"there is no docker://{OPEN}/small:7",)),
    "no login": ((), f"{DOOR}/small:1", 125, (f"{DOOR} refuses the login", "APPTAINER_DOCKER_USERNAME")),
    "a registry that is down": (
        (),
        "login:5999/small:1",
        125,
        ("login:5999 does not answer", "apptainer pull app.sif"),
    ),
    "a name that does not resolve": ((), "nowhere:5000/small:1", 125, ("nowhere does not resolve", "app.sif")),
    "not there, and never to be": (
        ("--pull", "never"),
        f"{OPEN}/small:1",
        121,
        ("node[01-04]", "--pull missing", CACHE),
    ),
    "a cache that cannot be": (("--image-cache", "/proc/x"), f"{OPEN}/small:1", 121, ("/proc/x", "--image-cache")),
    "half a digest": ((), f"{OPEN}/small@sha256:12", 2, ("incomplete digest",)),
    "another scheme": ((), "http://login/small", 2, ("docker, oras, library",)),
    "file or reference": ((), "small", 2, ("./small", "docker://small")),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_images_that_cannot_be_had(cluster: Cluster, wrong: str) -> None:
    words, reference, code, wanted = WRONG[wrong]
    line = refusal(small(cluster, "-Q", *words, reference=reference), code, *wanted)
    assert code == 2 or "node0" in line or "node[" in line, line
    assert files(cluster) == []


def test_images_with_a_wrong_password(cluster: Cluster) -> None:
    wrong = {"APPTAINER_DOCKER_USERNAME": "$oauthtoken", "APPTAINER_DOCKER_PASSWORD": "another key"}
    line = refusal(small(cluster, "-Q", reference=f"{DOOR}/small:1", env=wrong), 125, DOOR)
    assert "another key" not in line
    right = {**wrong, "APPTAINER_DOCKER_PASSWORD": "a key"}
    assert small(cluster, reference=f"{DOOR}/small:1", env=right).out.split() == ["1"] * 4


# A registry whose certificate is its own, over the store of the others.
UNTRUSTED = """\
cd /var/lib/rehearsal
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=login -addext subjectAltName=DNS:login \\
    -keyout untrusted.key -out untrusted.pem 2>/dev/null
sed -e 's/:5000/:5003/' -e "s,/etc/rehearsal/registry,$PWD/untrusted,g" open.yml >untrusted.yml
exec docker-registry serve untrusted.yml
"""


def test_images_of_a_registry_that_no_node_trusts(cluster: Cluster) -> None:
    with cluster.running(["sh", "-euc", UNTRUSTED], user="root"):
        wait_for(lambda: not cluster.root(LOGIN, "sh", "-c", "nc -z login 5003 || echo no"), "the registry")
        line = refusal(small(cluster, "-Q", reference="login:5003/small:1"), 125, "x509")
        assert "does not trust the certificate of login:5003: an admin adds its CA" in line and files(cluster) == []


@pytest.mark.skipif(not full(), reason="Apptainer asks again for a minute: --full")
def test_images_of_a_registry_that_has_had_enough(cluster: Cluster) -> None:
    program = cluster.put("/run/limited.py", (Path(__file__).parent / "programs/limited.py").read_bytes())
    certificate = (f"/etc/rehearsal/registry.{kind}" for kind in ("pem", "key"))
    try:
        with cluster.running(["python3", program, "5004", *certificate], user="root") as server:
            server.saying(lambda said: "listening" in said.out, "listening")
            line = refusal(small(cluster, "-Q", reference="login:5004/small:1"), 125, "You have reached your pull rate")
            assert "login:5004 refuses further requests from here: `apptainer registry login`" in line
            assert files(cluster) == []
    finally:
        cluster.root(LOGIN, "rm", "-f", program)


SLOW = """\
#!/bin/sh
touch /tmp/packing
exec sleep 600
"""


@pytest.fixture
def slow(cluster: Cluster) -> Iterator[None]:
    for node in cluster.nodes:
        cluster.root(node, "mv", "/usr/local/bin/mksquashfs", "/usr/local/bin/mksquashfs.away")
        cluster.put("/usr/local/bin/mksquashfs", SLOW, 0o755, node)
    yield
    for node in cluster.nodes:
        cluster.root(node, "mv", "/usr/local/bin/mksquashfs.away", "/usr/local/bin/mksquashfs")
        cluster.root(node, "rm", "-f", "/tmp/packing")


def packing(cluster: Cluster) -> bool:
    return any(cluster.path("/tmp/packing", node).exists() for node in cluster.nodes)


def gone(cluster: Cluster) -> None:
    def half_done() -> list[str]:
        return [name for name in files(cluster) if not re.fullmatch(r"refs/[^/]+\.layers/[0-9a-f]{64}", name)]

    wait_for(lambda: half_done() == [], "empty", state=lambda: str(half_done()))
    wait_for(lambda: not any("sleep" in process.argv for process in cluster.processes()), "without processes")
    for node in cluster.nodes:
        cluster.root(node, "rm", "-f", "/tmp/packing")


def test_images_that_take_too_long(cluster: Cluster, slow: None) -> None:
    result = small(cluster, "-Q", "--pull-timeout", "20s", "--start-timeout", "1s")
    refusal(result, 124, "not there after 20 s", "--pull-timeout", "waits for node0")
    gone(cluster)


def test_images_of_a_launcher_that_is_killed(cluster: Cluster, slow: None) -> None:
    with cluster.running(cluster.launch(*OUTSIDE, "--image", f"{OPEN}/small:1", *VERSION, nodes=2, tasks=1)) as job:
        wait_for(lambda: packing(cluster), "packing", state=lambda: str(job.so_far()))
        kill(cluster.mnruns())
        gone(cluster)
    refusal(small(cluster, "-Q", "--pull", "never"), 121, "not in")  # and takes the dead one's records away


def test_images_wait_for_a_lock_no_longer_than_its_holder_lives(cluster: Cluster) -> None:
    assert small(cluster).out.split() == ["1"] * 4
    lock = f"{CACHE}/{next(name for name in files(cluster) if 'refs/' in name)}.lock"
    cluster.root(LOGIN, "sh", "-c", f"rm -rf {CACHE}/sha* && mkdir {lock} && echo half >{lock}/new.sif")
    cluster.put(f"{lock}/owner", "node01 999999\n")
    cluster.root(LOGIN, "chown", "-R", "alice", CACHE)
    assert small(cluster).out.split() == ["1"] * 4
    assert not cluster.path(lock).exists()


def test_images_on_a_full_disk(cluster: Cluster) -> None:
    place = "/var/tmp/tiny"
    try:
        for node in cluster.nodes:
            cluster.root(node, "sh", "-c", f"mkdir {place} && mount -t tmpfs -o size=2m,mode=1777 tiny {place}")
        line = refusal(small(cluster, "-Q", "--image-cache", f"{place}/cache"), 125, "no space left", place)
        assert "node0" in line or "node[" in line
        for node in cluster.nodes:
            assert cluster.root(node, "find", place, "-type", "f") == ""
    finally:
        for node in cluster.nodes:
            cluster.root(node, "sh", "-c", f"umount {place}; rm -rf {place}")


def test_images_that_nobody_uses(cluster: Cluster) -> None:
    """`mnrun clean --images`: what no job has taken for long goes, and what a dead node left; once more later."""
    clean = ["mnrun", "clean", "--images", "--older", "30d"]
    for version in ("1", "2"):
        assert small(cluster, reference=f"{OPEN}/small:{version}", nodes=1).out == f"{version}\n"
    wait_for(lambda: len(files(cluster)) == 4, "rid of what pulling left", state=lambda: str(files(cluster)))
    for name in files(cluster):
        os.utime(cluster.path(f"{CACHE}/{name}"), (time.time() - 40 * 86400,) * 2)
    cluster.root(LOGIN, "sh", "-c", f"mkdir {CACHE}/refs/dead.lock && touch -d '40 days ago' {CACHE}/refs/dead.lock")
    shown = cluster.alice([*clean, "--dry-run"])
    assert shown.out.count("would remove") == 2 and len(files(cluster)) == 4, shown
    assert small(cluster, "--pull", "never", nodes=1).out == "1\n"
    done = cluster.alice(clean)
    assert done.code == 0 and f"docker://{OPEN}/small:2, " in done.out and "unused for 40 days" in done.out, done
    assert "1 of 2 images removed" in done.err and len(files(cluster)) == 2, done
    assert not cluster.path(f"{CACHE}/refs/dead.lock").exists()
    assert small(cluster, reference=f"{OPEN}/small:2", nodes=1).out == "2\n"


def test_images_that_differ_between_nodes(cluster: Cluster) -> None:
    place = "/var/tmp/own"
    tag = f"{OPEN}/small:differs"

    def on(nodes: list[str], version: str) -> Result:
        cluster.root(LOGIN, "skopeo", "copy", "-q", f"docker://{OPEN}/small:{version}", f"docker://{tag}")
        names = ("-w", ",".join(nodes))
        return small(cluster, "--image-cache", place, reference=tag, nodes=len(nodes), salloc=names)

    try:
        assert on(["node03"], "2").code == on(["node01", "node02", "node04"], "1").code == 0
        refusal(small(cluster, "-Q", "--image-cache", place, reference=tag), 121, "node03: sha256:", "node[01-02,04]")
    finally:
        for node in cluster.nodes:
            cluster.root(node, "rm", "-rf", place)


def test_images_without_a_scheduler(cluster: Cluster) -> None:
    words = ["mnrun", "--hosts", "node[01-03]", *OUTSIDE[:2], "--image", f"{OPEN}/small:1", *VERSION]
    assert cluster.alice(words).out.split() == ["1"] * 3
    refusal(cluster.alice([*words[:-5], "-Q", "--image", f"{OPEN}/small:7", *VERSION]), 125, "small:7", "node")


def test_images_for_charliecloud(cluster: Cluster) -> None:
    """One node packs a squashfs file of the image, and all run it. The next job asks nobody."""

    def job(*words: str, reference: str, env: Mapping[str, str] = {}) -> Result:  # read only
        return small(cluster, "--runtime", "charliecloud", *words, reference=reference, nodes=2, env=env)

    first, again = (job(reference=f"docker://{OPEN}/small:1") for _ in "12")
    assert first.out.split() == again.out.split() == ["1"] * 2, (first, again)
    assert "pulling" not in again.err, again
    assert [name.rpartition(".")[2] for name in files(cluster)[1:]] == ["sqfs"]
    refusal(job("-Q", reference=f"{OPEN}/small:7"), 125, f"there is no {OPEN}/small:7", "CH_IMAGE_USERNAME")
    refusal(job("-Q", reference="login:5999/small:1"), 125, "the registry login:5999 does not answer")
    login = {"CH_IMAGE_USERNAME": "alice", "CH_IMAGE_PASSWORD": "wrong"}
    refusal(job("-Q", reference=f"{DOOR}/small:2", env=login), 125, f"{DOOR} refuses the login")
    login["CH_IMAGE_PASSWORD"] = "open sesame"
    assert job(reference=f"{DOOR}/small:2", env=login).out.split() == ["2"] * 2


@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_images_in_the_stores_of_the_nodes(engines: Cluster, runtime: str) -> None:
    tag = f"{OPEN}/small:{time.monotonic_ns()}"  # which no store has
    engines.root(LOGIN, "skopeo", "copy", "-q", f"docker://{OPEN}/small:1", f"docker://{tag}")

    def job(*words: str, reference: str = tag) -> Result:
        return small(engines, "--runtime", runtime, *words, reference=reference)

    refusal(job("-Q", "--pull", "never"), 121, "is not on this node", "--pull missing")
    assert job().out.split() == ["1"] * 4
    refusal(job("-Q", reference=f"{OPEN}/small:9"), 125, f"there is no {OPEN}/small:9")
    refusal(job("-Q", reference=f"{DOOR}/small:1"), 125, f"{DOOR} refuses the login", f"`{runtime} login`")
    refusal(job("-Q", reference="login:5999/small:1"), 125, "node[01-04]: the registry login:5999 does not answer")
    if runtime == "docker":
        engines.root("node03", "sh", "-c", f"docker pull -q {OPEN}/small:2 && docker tag {OPEN}/small:2 {tag}")
        refusal(job("-Q"), 121, "not the same", "node03: sha256:", "node[01-02,04]: sha256:")
        assert job("--pull", "always").out.split() == ["1"] * 4


SYS_ADMIN = 1 << 21  # a capability that neither gives unasked


def test_images_behind_a_login_of_the_engines_own(engines: Cluster) -> None:
    """`docker login`'s, and podman's where every node sees it (skopeo writes that file, and leaves no process behind).

    Podman with a store elsewhere; and both with all rights where that is asked for.
    """
    look = ("--", "sh", "-c", "cat /etc/version; grep CapBnd /proc/self/status")
    logins = {
        "docker": ("docker login", ()),
        "podman": (
            "mkdir -p ~/.config/containers; skopeo login --authfile ~/.config/containers/auth.json",
            ("--podman-root", "/tmp/mnrun-podman.other"),
        ),
    }
    try:
        for runtime, (login, words) in logins.items():
            typed = f"rm -rf ~/.docker; {login} --username '$oauthtoken' --password-stdin {DOOR}"
            done = engines.alice(["sh", "-c", typed], node="node01", stdin=b"a key")
            assert done.code == 0, done
            given = (*OUTSIDE, "--runtime", runtime, *words, "--privileged", "--image", f"{DOOR}/small:2", *look)
            result = engines.mnrun(*given, nodes=1, tasks=1)
            assert result.out.splitlines()[0] == "2", result
            assert int(result.out.split()[-1], 16) & SYS_ADMIN, (
                result
            )  # in podman's own user namespace, where that is all
            assert (runtime == "podman") is engines.path("/tmp/mnrun-podman.other/root", "node01").exists()
    finally:
        engines.alice(["rm", "-rf", ".docker", ".config"], cwd="/home/alice")
        engines.root("node01", "sh", "-c", f"docker rmi -f {DOOR}/small:2; rm -rf /tmp/mnrun-podman.other")

"""What bob can do where alice's images lie: A3, A8 and A9 of the review of test_stranger.py, and S3 and S5."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from .cells import OMPI5, SRUN
from .reports import refusal
from .stage import LOGIN, Cluster, Desk, wait_for
from .stranger import ALICE, EVIL_IMAGE, FIRST, LAIR, PULL, SECOND, Stranger, bystander, marks, planted, project

pytestmark = pytest.mark.live

OPEN = "login:5000"

PACK = """\
#!/bin/sh
: >/tmp/packing
until [ -e /tmp/packing.go ]; do sleep 0.1; done
exec /usr/local/bin/mksquashfs.away "$@"
"""


@contextmanager
def packing(cluster: Cluster, node: str) -> Iterator[None]:
    """A node that converts images once it is told to."""
    cluster.root(node, "mv", "/usr/local/bin/mksquashfs", "/usr/local/bin/mksquashfs.away")
    cluster.put("/usr/local/bin/mksquashfs", PACK, 0o755, node)
    try:
        yield
    finally:
        cluster.root(node, "mv", "/usr/local/bin/mksquashfs.away", "/usr/local/bin/mksquashfs")
        cluster.root(node, "rm", "-f", "/tmp/packing", "/tmp/packing.go")


@pytest.fixture
def registry(cluster: Cluster) -> None:
    cluster.tool("registry")


def test_stranger_takes_the_name_of_a_pull(cluster: Cluster, bob: Stranger, registry: None) -> None:
    """A3: one node has the image and another not yet; the name of the first one's spare directory is bob's by then."""
    again = 'until [ -e "$1" ]; do sleep 0.02; done; while [ -e "$1" ]; do sleep 0.05; done\n'
    again += 'mkdir -m 755 "$1" && echo 1 >"$1/group" && echo planted'
    words = ("-Q", *SRUN.words[:4], "--image", f"{OPEN}/small:1", "--image-cache", "/var/tmp/own", "--", "cat")
    try:
        with ExitStack() as stack:
            stack.enter_context(packing(cluster, SECOND))
            watcher = stack.enter_context(bob.watching(again, PULL))
            stack.enter_context(bystander(cluster))
            line = cluster.launch(*words, "/etc/version", nodes=2, tasks=1)
            job = stack.enter_context(cluster.running(line))
            planted(watcher)
            wait_for(lambda: cluster.path("/tmp/packing", SECOND).exists(), "packing", state=lambda: str(job.so_far()))
            cluster.put("/tmp/packing.go", "", node=SECOND)
            result = job.end()
            assert (result.code, result.out.split()) == (0, ["1", "1"]), result
    finally:
        for node in cluster.nodes:
            cluster.root(node, "rm", "-rf", "/var/tmp/own")


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_stranger_has_made_podmans_store(cluster: Cluster, bob: Stranger, verb: str) -> None:
    """A8: podman is not asked about images in a directory that others could fill, nor is anything written there."""
    store = f"/tmp/mnrun-podman.{ALICE}"
    words = ["mnrun", verb, "--mode", "outside-in", "--runtime", "podman", "--image", "localhost/ompi5", "--", "true"]
    saved = f"{store}.saved"
    cluster.root(FIRST, "sh", "-c", f"[ ! -e {store} ] || mv {store} {saved}")
    try:
        bob.does(f"mkdir -m 777 {store} && chmod 777 {store}")
        result = cluster.alice(["salloc", "-Q", "-N1", "-w", FIRST, *words])
        inside = sorted(path.name for path in cluster.path(store, FIRST).rglob("*"))
    finally:
        cluster.root(FIRST, "sh", "-c", f"rm -rf {store}; [ ! -e {saved} ] || mv {saved} {store}")
    assert inside == [], result
    assert f"{store} does not belong to you" in result.out + result.err, result


def planted_cache(stranger: Stranger, place: str, reference: str, desk: str, node: str) -> None:
    """A cache in which a reference is known, by an image of somebody's choice."""
    digest = "b" * 64
    name = re.sub(r"[^A-Za-z0-9._-]", "_", reference)
    script = """
        umask 022
        mkdir -p "$1/refs"
        echo "sha256:$2 key job $3" >"$1/refs/$4-$(echo "$3" | cksum | cut -d' ' -f1)"
    """
    stranger.does(script, place, digest, reference, name, node=node)
    stranger.does(EVIL_IMAGE, f"{place}/sha256-{digest}.sif", desk, node=node)


# Every way to the image of a cache, with the code of the refusal.
READERS = {
    "run": (("salloc", "-Q", "-N1", "-w", FIRST, "mnrun", "-Q"), 121),
    "submit": (("mnrun", "submit", "--wait", "-N1", "-w", FIRST, "-o", "out", "-e", "out"), 121),
    "local": (("mnrun", "-Q", "--local"), 121),
    "hosts": (("mnrun", "-Q", "--hosts", FIRST), 121),
    "plan": (("salloc", "-Q", "-N1", "-w", FIRST, "mnrun", "plan"), 0),
    "inspect": (("salloc", "-Q", "-N1", "-w", FIRST, "mnrun", "image", "inspect"), 2),
    "verify": (("mnrun", "image", "verify"), 2),
    "pull": (("mnrun", "image", "pull"), 121),
    "ls": (("mnrun", "image", "ls"), 2),
}


@pytest.mark.parametrize("by", ["tag", "digest"])
def test_stranger_has_filled_the_cache(cluster: Cluster, bob: Stranger, desk: Desk, unmarked: None, by: str) -> None:
    """A9, S3: no image of somebody else's cache runs, by whatever verb, nor is anything of it believed."""
    place = f"{LAIR}/cache"
    reference = f"docker://{OPEN}/small:1" if by == "tag" else f"docker://{OPEN}/small@sha256:{'b' * 64}"
    for node in (LOGIN, FIRST):
        planted_cache(bob, place, reference, desk.path, node)
    job = ("--mode", "outside-in", "--launcher", "srun", "-B", f"{desk.path}:/mnt", "--image", reference)
    jobs = ("run", "submit", "local", "hosts", "plan")
    for verb in READERS if by == "tag" else ("run", "inspect"):
        words, code = READERS[verb]
        more: tuple[str, ...] = job if verb in jobs else () if verb == "ls" else (reference,)
        if verb in ("local", "hosts"):
            more = tuple(word.replace("srun", "mpirun") for word in more)
        line = [*words, *more, "--image-cache", place, *(("--", "true") if verb in jobs else ())]
        result = cluster.alice(line, cwd=desk.path)
        assert marks(cluster, desk) == [], f"{verb}: {result}"
        assert result.code == code, f"{verb}: {result}"
        if verb not in ("plan", "submit"):
            assert place in refusal(result, code, "--image-cache"), result
    cluster.root(LOGIN, "sh", "-c", "rm -rf /home/alice/.mnrun/jobs/*")


def test_stranger_has_filled_the_cache_of_a_node(cluster: Cluster, bob: Stranger, desk: Desk, unmarked: None) -> None:
    """S3: the cache is each node's own. Here it is alice's, and on the node another one has that name."""
    place, reference = "/var/tmp/own", f"docker://{OPEN}/small:1"
    mine = Stranger(cluster, "alice")
    planted_cache(mine, place, reference, desk.path, LOGIN)
    planted_cache(bob, place, reference, desk.path, FIRST)
    words = ("--mode", "outside-in", "-B", f"{desk.path}:/mnt", "--image", reference, "--image-cache", place)
    for verb in ("run", "plan"):
        result = cluster.alice(["salloc", "-Q", "-N1", "-w", FIRST, "mnrun", verb, *words, "--", "true"])
        assert marks(cluster, desk) == [], result
        assert result.code == (121 if verb == "run" else 0), result
        assert f"{place} does not belong to you" in result.out + result.err, result


@pytest.mark.parametrize("what", ["cache", "copies"])
def test_stranger_may_write_where_images_are(cluster: Cluster, stranger: Stranger, what: str) -> None:
    """A9, S5: a directory of alice's, whose name everybody or a member of her group could give to another."""
    with project(cluster, stranger.name) as shared:
        place = f"{shared}/alice"
        assert cluster.alice(["mkdir", "-m", "700", place]).code == 0
        stranger.does('mv "$1" "$1.away" && mv "$1.away" "$1"', place)  # so they can
        if what == "cache":
            words = ["--image-cache", place, "--image", f"{OPEN}/small:1"]
        else:
            words = ["--stage", "--stage-dir", place, "--image", OMPI5]
        result = cluster.mnrun("-Q", *SRUN.words[:4], *words, "--", "true", nodes=2, tasks=1)
        refusal(
            result, 121, f"other users may write to {shared}", "--image-cache" if what == "cache" else "--stage-dir"
        )
        assert list(cluster.path(place).iterdir()) == [], "something was written there"


def test_a_group_of_ones_own_is_nobody_else(cluster: Cluster, registry: None, desk: Desk) -> None:
    """S5: many systems give each user a group, and let it write. But an access list may name others."""
    assert cluster.alice(["mkdir", "-m", "2775", "cache"], cwd=desk.path).code == 0
    pull = ["mnrun", "image", "pull", "-Q", f"{OPEN}/small:1", "--image-cache", f"{desk.path}/cache"]
    cluster.root(LOGIN, "chmod", "2775", desk.path)
    assert cluster.alice(pull).code == 0
    cluster.root(LOGIN, "chgrp", "proj", desk.path)
    refusal(cluster.alice(pull), 121, f"other users may write to {desk.path}")

"""What bob can do where alice's images lie: A3, A8 and A9 of the review that test_stranger.py is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from .cells import OMPI5, SRUN
from .reports import refusal
from .stage import Cluster, wait_for
from .stranger import ALICE, FIRST, LAIR, PULL, SECOND, Stranger, bystander, planted

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
    assert f"{store} cannot be made, or belongs to another user" in result.out + result.err, result


def planted_cache(cluster: Cluster, bob: Stranger, place: str, reference: str) -> None:
    """A cache in which a reference is known, by an image of somebody's choice: ompi5."""
    digest = "b" * 64
    name = re.sub(r"[^A-Za-z0-9._-]", "_", reference)
    script = """
        umask 022
        mkdir -p "$1/refs" && cp "$2" "$1/sha256-$3.sif"
        echo "sha256:$3 key job $4" >"$1/refs/$5-$(echo "$4" | cksum | cut -d' ' -f1)"
    """
    for node in cluster.nodes:
        bob.does(script, place, OMPI5, digest, reference, name, node=node)


@pytest.mark.parametrize("by", ["tag", "digest"])
def test_stranger_has_filled_the_cache(cluster: Cluster, bob: Stranger, by: str) -> None:
    """A9: what an image cache of somebody else's holds is not believed, whether by a tag or by a digest."""
    place = f"{LAIR}/cache"
    reference = f"docker://{OPEN}/small:1" if by == "tag" else f"docker://{OPEN}/small@sha256:{'b' * 64}"
    planted_cache(cluster, bob, place, reference)
    words = ("-Q", *SRUN.words[:4], "--image-cache", place, "--image", reference, "--", "true")
    refusal(cluster.mnrun(*words, nodes=2, tasks=1), 121, f"{place} does not belong to you", "--image-cache")


def test_stranger_may_write_where_the_cache_is(cluster: Cluster, bob: Stranger) -> None:
    """A9: a cache of alice's in a directory of everybody's, who could give its name to another."""
    place = f"{LAIR}/open/cache"
    for node in cluster.nodes:
        bob.does(f"mkdir -m 777 {LAIR}/open && chmod 777 {LAIR}/open", node=node)
        assert cluster.alice(["mkdir", place], node=node).code == 0
    words = ("-Q", *SRUN.words[:4], "--image-cache", place, "--image", f"{OPEN}/small:1", "--", "true")
    refusal(cluster.mnrun(*words, nodes=2, tasks=1), 121, f"any user may write to {LAIR}/open", "--image-cache")

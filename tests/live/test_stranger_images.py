"""What bob and carol can do where alice's images lie: A3 of test_stranger.py, S3 and S5. See also test_promises.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from .cells import SRUN
from .reports import refusal
from .stage import LOGIN, Cluster, Desk, wait_for
from .stranger import EVIL_IMAGE, FIRST, PULL, SECOND, Stranger, bystander, lair, marks, planted, project

OPEN = "login:5000"

PACK = """\
#!/bin/sh
: >/tmp/packing
until [ -e /tmp/packing.go ]; do sleep 0.1; done
exec /usr/local/bin/mksquashfs.away "$@"
"""


@contextmanager
def packing(cluster: Cluster, node: str) -> Iterator[None]:
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


def planted_cache(stranger: Stranger, place: str, reference: str, desk: str, node: str) -> None:
    digest = "b" * 64
    name = re.sub(r"[^A-Za-z0-9._-]", "_", reference)
    script = """
        umask 022
        mkdir -p "$1/refs"
        echo "sha256:$2 key job $3" >"$1/refs/$4-$(echo "$3" | cksum | cut -d' ' -f1)"
    """
    stranger.does(script, place, digest, reference, name, node=node)
    stranger.does(EVIL_IMAGE, f"{place}/sha256-{digest}.sif", desk, node=node)


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


# Takes the name of whatever somebody makes in this directory, and gives it a recipe whose steps run on the node.
SWAP = """\
import os, shutil, sys
print("watching", flush=True)
while True:
    for name in set(os.listdir()) - {"twin", "away", "app.sif"}:
        try:
            os.rename(name, f"away/{name}")
            shutil.copytree("twin", name)
        except OSError:
            continue
"""
RECIPE = "Bootstrap: localimage\nFrom: /images/bare.sif\n%setup\n{}\n"


@pytest.mark.usefixtures("bare")
def test_stranger_may_write_where_an_image_is_made(cluster: Cluster, desk: Desk) -> None:
    with lair(cluster, "carol") as carol, project(cluster, "carol") as shared:
        for place in ("twin", "away"):
            carol.does('mkdir -m 2775 "$1"', f"{shared}/{place}", node=LOGIN)
        carol.does('printf %s "$2" >"$1"', f"{shared}/twin/image.def", RECIPE.format("id >/tmp/evil"), node=LOGIN)
        desk.put("app.def", RECIPE.format(": >/tmp/good"))
        words = ["sh", "-c", 'cd "$0" && exec python3 -c "$1"', shared, SWAP]
        with cluster.running(words, user="carol") as watcher:
            watcher.saying(lambda said: "watching" in said.out, "watching")
            done = cluster.alice(["mnrun", "image", "build", "app.def", "-o", f"{shared}/app.sif"], cwd=desk.path)
        ran = [name for name in ("good", "evil") if cluster.path(f"/tmp/{name}").exists()]
        cluster.root(LOGIN, "rm", "-f", "/tmp/good", "/tmp/evil")
        assert (done.code, ran) == (0, ["good"]), done


def test_stranger_may_replace_a_link_behind_a_link(cluster: Cluster, stranger: Stranger, desk: Desk) -> None:
    """S5: a link of alice's leads to another link, and that one to a directory of hers."""
    with project(cluster, stranger.name) as shared:
        link = 'mkdir -m 700 cache && ln -s "$PWD/cache" "$1/link" && ln -s "$1/link" link'
        assert cluster.alice(["sh", "-c", link, "sh", shared], cwd=desk.path).code == 0
        cache = ("--image-cache", f"{desk.path}/link")
        run = cluster.mnrun("-Q", *SRUN.words[:4], *cache, "--image", f"{OPEN}/small:1", "--", "true", nodes=1, tasks=1)
        refusal(run, 121, f"other users may write to {shared}", "--image-cache")
        refusal(cluster.alice(["mnrun", "image", "ls", *cache]), 2, f"is below {shared}", "--image-cache")
        assert list(cluster.path(f"{desk.path}/cache").iterdir()) == [], "something was written there"


def test_a_group_of_ones_own_is_nobody_else(cluster: Cluster, registry: None, desk: Desk) -> None:
    """S5: many systems give each user a group, and let it write. But an access list may name others."""
    assert cluster.alice(["mkdir", "-m", "2775", "cache"], cwd=desk.path).code == 0
    pull = ["mnrun", "image", "pull", "-Q", f"{OPEN}/small:1", "--image-cache", f"{desk.path}/cache"]
    cluster.root(LOGIN, "chmod", "2775", desk.path)
    assert cluster.alice(pull).code == 0
    cluster.root(LOGIN, "chgrp", "proj", desk.path)
    refusal(cluster.alice(pull), 121, f"other users may write to {desk.path}")

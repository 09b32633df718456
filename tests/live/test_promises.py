"""Places that alice names and others may write to, by each way in. A row of TRAPS is a promise of docs/security.md.

Bob is any other user. Carol is in a group with alice. Where they may write lies such a place three times: it is theirs,
it is alice's and open to them, or it is hers alone and they could rename it. Each way in meets one of the three by bob,
and another one by carol. With --full, each meets all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

from .batch import forget
from .cells import OMPI5, some
from .stage import LOGIN, Cluster, Desk, Result
from .stranger import LAIR, Stranger, evil_images, marks, project
from .ways import LIST, PAPER, PLANS, PULL, STARTS, STORES, VERBS, WAYS

REFERENCE = "docker://login:5000/small:1"
NAME, DIGEST = re.sub("[^A-Za-z0-9._-]", "_", REFERENCE), "b" * 64
KINDS = ("theirs", "open", "below")

# Each fills the directory "$1" with what somebody would like alice to run, or to write to: a file of hers is "$2".
CACHE = f"""
    mkdir "$1/refs"
    echo "sha256:{DIGEST} key job {REFERENCE}" >"$1/refs/{NAME}-$(echo "{REFERENCE}" | cksum | cut -d' ' -f1)"
    cp -r {LAIR}/image "$1/sha256-{DIGEST}.sif"
"""
COPIES = f"""
    mkdir -m 700 "$1/mnrun.alice" "$1/mnrun.alice/images"
    cp {LAIR}/image.sif "$1/mnrun.alice/images/sha256-$(sha256sum <{OMPI5} | cut -d' ' -f1).sif"
"""
STORE = 'mkdir -p "$1/user/containers" "$1/root" && : >"$1/keeps-groups"'
RECORDS = """
    for job in $(seq 99); do
      mkdir -p "$1/$job/0" && chmod 777 "$1/$job" "$1/$job/0"
      for name in submitted script 0/begun 0/log 0/outcome; do ln -s "$2" "$1/$job/$name"; done
    done
"""


@dataclass(frozen=True)
class Trap:
    """A place, with the variables that name it, {PLACE}, and the exit code of each way in.

    A place of alice's alone is refused where others could rename it, unless it is `safe` there.
    """

    fill: str
    variables: tuple[str, ...]
    codes: Mapping[str, int]
    image: str = REFERENCE
    safe: bool = False

    def line(self, way: str, place: str, desk: Desk) -> list[str]:
        names = (f"MNRUN_BIND={desk.path}:/mnt", "MNRUN_MODE=outside-in", "MNRUN_LAUNCHER=mpirun", *self.variables)
        return [
            "env",
            *(name.format(PLACE=place, DESK=desk.path) for name in names),
            *WAYS[way].line("" if way in LIST else self.image),
        ]


def codes(code: int, *ways: Iterable[str]) -> dict[str, int]:
    return {way: code for each in ways for way in each}


TRAPS = {
    "cache": Trap(
        CACHE,
        ("MNRUN_IMAGE_CACHE={PLACE}",),
        {**codes(121, STARTS, PULL), **codes(0, PAPER, PLANS), **codes(2, VERBS, LIST)},
    ),
    "digest": Trap(
        CACHE,
        ("MNRUN_IMAGE_CACHE={PLACE}",),
        {**codes(121, ["run"]), **codes(2, ["inspect"])},
        f"docker://login:5000/small@sha256:{DIGEST}",
    ),
    "copies": Trap(
        COPIES,
        ("MNRUN_STAGE=1", "MNRUN_STAGE_DIR={PLACE}"),
        codes(121, [way for way in STARTS if way != "local"]),  # there, nothing is copied
        OMPI5,
    ),
    "store": Trap(
        STORE,
        ("MNRUN_RUNTIME=podman", "MNRUN_PODMAN_ROOT={PLACE}"),
        {**codes(121, STARTS), **codes(0, PLANS), **codes(125, STORES)},
        "localhost/ompi5",
    ),
    "temporary": Trap(
        ":",
        ("TMPDIR={PLACE}", "MNRUN_IMAGE_CACHE={DESK}/cache"),
        codes(121, ["run", "submit", "local"], PULL),  # a host has its own TMPDIR
    ),
    "records": Trap(
        RECORDS,
        ("MNRUN_RUNTIME=host", "MNRUN_JOB_DIR={PLACE}"),
        codes(2, STARTS),
        "",
        safe=True,  # each directory in it is judged as it is entered
    ),
}


def state(cluster: Cluster, *places: str) -> str:
    return cluster.root(LOGIN, "find", *places, "-printf", "%p %u %m %s %T@ %l\n")


@pytest.mark.parametrize("name", TRAPS)
def test_a_place_that_others_may_write_to(
    cluster: Cluster, stranger: Stranger, desk: Desk, unmarked: None, name: str
) -> None:
    """By no way in does anything of it run, nor does anything there change (A8, A9, S3, S5, S6)."""
    trap, alice = TRAPS[name], Stranger(cluster, "alice")
    evil_images(cluster, desk, stranger)
    desk.put("data", "data\n")
    desk.put("Dockerfile", "FROM scratch\n")
    faults = []
    with project(cluster, stranger.name) as shared:
        mode = "2775" if stranger.name == "carol" else "777"
        for kind in KINDS:
            maker, filler = (stranger if kind == "theirs" else alice), (alice if kind == "below" else stranger)
            place = f"{shared}/{kind}"
            maker.does('mkdir "$1" && chmod "$2" "$1"', place, "700" if kind == "below" else mode, node=LOGIN)
            filler.does(f"set -eu; umask 022; {trap.fill}", place, f"{desk.path}/data", node=LOGIN)
        before = state(cluster, f"{shared}/theirs", f"{shared}/open", f"{shared}/below", f"{desk.path}/data")
        for turn, (way, code) in enumerate(trap.codes.items()):
            kinds = KINDS[: 2 if trap.safe else 3]
            for kind in some(kinds, [kinds[(turn + (stranger.name == "carol")) % len(kinds)]]):
                done = cluster.alice(trap.line(way, f"{shared}/{kind}", desk), cwd=desk.path)
                after = state(cluster, f"{shared}/theirs", f"{shared}/open", f"{shared}/below", f"{desk.path}/data")
                said = told(done, desk)
                clear = f"{shared}/" in said and "Traceback" not in said
                if done.code != code or marks(cluster, desk) or after != before or (code and not clear):
                    faults.append(f"{way}, {kind}: {marks(cluster, desk)} {said}")
                    cluster.root(LOGIN, "rm", "-f", *marks(cluster, desk))
                    before = after
    forget(cluster)
    assert not faults, "\n".join(faults)


def told(done: Result, desk: Desk) -> str:
    return f"{done}\n{b''.join(desk.read(name) for name in ('out', 'err') if name in desk.names())!r}"


@pytest.mark.parametrize("name", ["cache", "copies"])
def test_these_traps_are_some(cluster: Cluster, bob: Stranger, desk: Desk, unmarked: None, name: str) -> None:
    trap, alice = TRAPS[name], Stranger(cluster, "alice")
    evil_images(cluster, desk, bob)
    place = f"{desk.path}/place"
    alice.does(f'set -eu; mkdir -m 700 "$1"; {trap.fill}', place, node=LOGIN)
    ways = [way for way in trap.codes if way in {**STARTS, **PLANS}]
    for way in some(ways, [way for way in ways if way in ("run", "plan", "check of hosts")]):
        done = cluster.alice(trap.line(way, place, desk), cwd=desk.path)
        assert marks(cluster, desk), f"{way}: {told(done, desk)}"
        for node in (LOGIN, *cluster.nodes):
            cluster.root(node, "rm", "-f", "/tmp/evil", f"{desk.path}/evil")
    forget(cluster)

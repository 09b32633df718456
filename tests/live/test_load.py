"""Load: many jobs at once, one after the other, and on many nodes; the questions to slurmctld, and what has grown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from faults import checker
from load import growth, record
from load.engine import play
from load.table import MADE, STORIES, Line, Story, Terminal, crowd

from .cells import full, some
from .conftest import NAME, tool, up
from .stage import Cluster, wait_for

pytestmark = pytest.mark.xdist_group("load")

# A process with memory of its own, a port, files, and questions by the dozen.
GREEDY = "held = bytearray(64 << 20); import signal; signal.pause()"
LISTENS = "import socket, signal; s = socket.create_server(('', 23498)); signal.pause()"
PLANTED = (
    Line(f'setsid python3 -c "{GREEDY}" >/dev/null 2>&1 &'),
    Line(f'setsid python3 -c "{LISTENS}" >/dev/null 2>&1 &'),
    Line("touch /tmp/planted /dev/shm/planted"),
    Line("for n in $(seq 40); do squeue; done", jobs=1),
    Line("echo 7 of 8; exit 3", {"of 8": 8}),
)
REPORTED = (
    *("exit 3: the exit code is 3, not 0: 7 of 8", "exit 3: 1 lines match 'of 8', not 8"),
    *("messages of users, and not ", "times for all jobs of a user, and not ", "login has .* KiB more in use"),
    *("left: login: file /dev/shm/planted", "left: login: file /tmp/planted", "left: login: port tcp 23498 of 1500"),
    *("left: login: process of 1500: python3 -c held", "left: login: process of 1500: python3 -c import socket"),
)
SMALL = (Story("4 jobs at once", crowd, 4, 2),)


@pytest.fixture
def place(cluster: Cluster, story: Story) -> Iterator[Cluster]:
    with nullcontext(cluster) if len(cluster.nodes) >= story.nodes else up(f"{NAME}-load", story.nodes) as ours:
        if story.engines:
            tool(ours.name, "engines", "ompi5")
            for way in MADE:  # what an engine keeps of an image on a node, it makes at the image's first use there
                done = ours.mnrun(*way.words, "--", "true", nodes=len(ours.nodes), tasks=1)
                assert done.code == 0, done
            ours.settle()  # podman's folders in the home
        yield ours


@pytest.mark.parametrize("story", some(STORIES, SMALL), ids=lambda story: story.name)
def test_load(place: Cluster, story: Story) -> None:
    """Every job ends as it should, slurmctld is asked no more than is right, and nothing has grown."""
    played = play(place, story)
    if full():
        record.keep(story, played)
    assert not (wrong := played.wrong(story)), "\n".join(wrong[:50])


def test_a_planted_load_is_reported(cluster: Cluster) -> None:
    story = Story("planted", lambda size: (Terminal("alice", PLANTED[:size]),), len(PLANTED), 0)
    wait_for(lambda: growth.things(cluster.model) == growth.things(cluster.model), "calm")
    before = growth.things(cluster.model)
    wrong = play(cluster, story, 0).wrong(story)
    away = "while pkill -KILL -x -u alice python3; do sleep 0.1; done; rm -f /tmp/planted /dev/shm/planted"
    cluster.root("login", "sh", "-c", away)
    assert [part for part in REPORTED if not any(re.search(part, line) for line in wrong)] == [], wrong
    cluster.root("node02", "touch", "/run/planted")
    left, _ = checker.wait_same(cluster.model, before, 5, growth.things)
    assert "node02: inode /run/planted" in left
    cluster.root("node02", "rm", "/run/planted")

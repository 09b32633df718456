"""Play a story: all its terminals at the same time, and judge what they printed, what was asked, and what has grown."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from faults import checker
from faults.engine import idle
from live.stage import LOGIN, Cluster, Job, Result, wait_for
from rehearsal import enter, model, namespaces

from . import growth, slurmctld
from .slurmctld import Questions
from .table import USERS, Line, Story, Terminals, clean

FOLDER = "/home/{}/load"
PATIENCE = 600.0  # seconds for a line
SETTLED = 15.0
MEMORY = 2048  # KiB by which a node's daemons may grow: they keep what they once had from malloc(3)


@dataclass(frozen=True)
class Ended:
    """The end of a line."""

    user: str
    line: Line
    result: Result

    def wrong(self) -> Iterator[str]:
        """Yield all that is not as the table says."""
        said, where = self.result.out + self.result.err, f"{self.user}: {self.line.text}"
        if self.result.code != self.line.code:
            last = said.strip().splitlines()[-1:] or ["no word"]
            yield f"{where}: the exit code is {self.result.code}, not {self.line.code}: {last[0].strip()}"
        if "Traceback" in said:
            yield f"{where}: there is a traceback"
        for pattern, wanted in self.line.says.items():
            found = {line for line in said.splitlines() if re.search(pattern, line)}
            if len(found) != wanted:
                yield f"{where}: {len(found)} lines match {pattern!r}, not {wanted}"


@dataclass(frozen=True)
class Played:
    """A story that was played: the ends of its lines, its time, what slurmctld was asked, and what has grown."""

    ends: Sequence[Ended]
    seconds: float
    asked: Questions
    left: Sequence[str]
    memory: Mapping[str, int]  # node -> KiB more than before

    def wrong(self, story: Story) -> list[str]:
        """Return all that is not as the table says."""
        found = [line for end in self.ends for line in end.wrong()]
        asked, most = self.asked.of(USERS), story.messages(self.seconds)
        if asked > most:
            found.append(f"slurmctld had {asked} messages of users, and not {most}")
        lists = story.lists(self.seconds)
        if self.asked.lists > lists:
            found.append(f"slurmctld was asked {self.asked.lists} times for all jobs of a user, and not {lists} times")
        found += [f"{node} has {more} KiB more in use" for node, more in self.memory.items() if more > MEMORY]
        return found + [f"left: {line}" for line in self.left]


def play(cluster: Cluster, story: Story, settled: float = SETTLED) -> Played:
    """Play the story in its first size, and then in its whole size between two looks at the nodes.

    `settled` is the number of seconds after which nothing may be left.
    """
    earlier, terminals = story.terminals(story.first), story.terminals(story.size)
    with _folders(cluster):
        _type(cluster, earlier)
        _type(cluster, clean(earlier))
    _settle(cluster)
    things, used = growth.things(cluster.model), growth.memory(cluster.model)
    slurmctld.forget(cluster)
    begin = time.monotonic()
    with _folders(cluster):
        ends = _type(cluster, terminals)
        seconds, asked = time.monotonic() - begin, slurmctld.asked(cluster)
        ends += _type(cluster, clean(terminals))
    _settle(cluster)
    left, _ = checker.wait_same(cluster.model, things, settled, growth.things)
    now = growth.memory(cluster.model)
    return Played(ends, seconds, asked, left, {node: now[node] - used[node] for node in now})


def _type(cluster: Cluster, terminals: Terminals) -> list[Ended]:
    """Type the lines at all terminals at the same time, and return their ends."""
    if not terminals:
        return []
    with ThreadPoolExecutor(len(terminals)) as pool:
        each = pool.map(lambda terminal: [_end(cluster, terminal.user, line) for line in terminal.lines], terminals)
        return [end for ends in each for end in ends]


def _end(cluster: Cluster, user: str, line: Line) -> Ended:
    """Type a line. One that never ends has the code -1."""
    pid = cluster.model.pid(LOGIN)
    assert pid is not None
    words = enter.words(["bash", "-c", line.text], user, FOLDER.format(user), "xterm")
    job = Job([*namespaces.nsenter(pid), *words])
    try:
        return Ended(user, line, job.end(PATIENCE))
    except AssertionError:  # it was killed
        return Ended(user, line, replace(job.so_far(), code=-1))


@contextmanager
def _folders(cluster: Cluster) -> Iterator[None]:
    """Give each user a folder to work in."""
    places = [(cluster.path(FOLDER.format(user)), model.USERS[user]) for user in USERS]
    try:
        for place, uid in places:
            place.mkdir()
            os.chown(place, uid, uid)
        yield
    finally:
        for place, _ in places:
            shutil.rmtree(place)


def _settle(cluster: Cluster) -> None:
    wait_for(lambda: idle(cluster), "idle", 90)

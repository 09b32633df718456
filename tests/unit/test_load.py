"""The pure parts of the load suite: the table of stories, the judgement of what came of one, the table of results."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from figures import Results, merged
from live.stage import Result
from load import slurmctld
from load.engine import Ended, Played
from load.slurmctld import Questions
from load.table import STORIES, Line, Story, Terminal

HELLO = Line("hello", {r"rank \d": 2}, jobs=1, handed=1, records=1)
STORY = Story("two", lambda size: (Terminal("alice", (HELLO,) * size),), 2, 1)


def test_the_stories_have_the_jobs_that_their_names_say() -> None:
    """60 jobs of two users at once, 300 in a row, 256 ranks, an array of 200, and 20 watchers beside jobs."""
    crowd, series, wide, array, watchers = (story.terminals(story.size) for story in STORIES)
    assert [story.jobs() for story in STORIES] == [60, 300, 4, 200, 4]
    assert (len(crowd), len(series[0].lines), len(watchers)) == (60, 300, 24)
    assert Counter(terminal.user for terminal in crowd) == {"alice": 30, "bob": 30}
    assert len({terminal.lines for terminal in crowd}) >= 30
    assert all(256 in line.says.values() for terminal in wide for line in terminal.lines)
    assert {line.records for terminal in array for line in terminal.lines} == {0, 201}  # the array has a record, too


def played(result: Result, asked: Questions = Questions({}, {}), left: tuple[str, ...] = (), more: int = 0) -> Played:  # noqa: B008
    return Played([Ended("alice", HELLO, result)], 61.0, asked, left, {"node01": more})


GOOD = Result(0, b"rank 0\nrank 1\n", "")


@pytest.mark.parametrize(
    ("end", "wrong"),
    [
        (played(GOOD), []),
        (played(Result(1, GOOD.raw, "no\n")), ["alice: hello: the exit code is 1, not 0: no"]),
        (played(Result(0, b"rank 0\nrank 0\n", "")), [r"alice: hello: 1 lines match 'rank \\d', not 2"]),
        (played(Result(0, GOOD.raw, "Traceback (most\n")), ["alice: hello: there is a traceback"]),
        (
            played(GOOD, Questions({}, {"alice": 7, "bob": 8, "root": 99})),
            [],
        ),  # 2 jobs with 5, 3 times 30 s, 2 handed in
        (played(GOOD, Questions({}, {"alice": 8, "bob": 27})), ["slurmctld had 35 messages of users, and not 34"]),
        (
            played(GOOD, Questions({"REQUEST_JOB_INFO": 3, "REQUEST_JOB_USER_INFO": 3}, {})),
            ["slurmctld was asked 6 times for all jobs of a user, and not 5 times"],
        ),
        (played(GOOD, left=("node01: file /tmp/x",)), ["left: node01: file /tmp/x"]),
        (played(GOOD, more=1 << 20), ["node01 has 1048576 KiB more in use"]),
    ],
)
def test_what_came_of_a_story_is_judged(end: Played, wrong: list[str]) -> None:
    assert end.wrong(STORY) == wrong


def test_sdiag_is_read_without_its_own_questions() -> None:
    """Shaped as Slurm 24.11 prints it, with the fields that count."""
    types = [{"message_type": name, "count": count} for name, count in (("REQUEST_STATS_INFO", 2), ("REQUEST_PING", 3))]
    users = [{"user": "alice", "user_id": 1500, "count": 4}]
    found = slurmctld.parse(json.dumps({"statistics": {"rpcs_by_message_type": types, "rpcs_by_user": users}}))
    assert (found.all, found.of(["alice", "bob"]), found.lists) == (3, 4, 0)


def test_the_last_result_of_each_case_is_kept() -> None:
    before: Results = {"b": {"n": 1}, "gone": {"n": 2}}
    known = merged(merged(before, {"b": {"n": 3}}, ["a", "b"]), {"a": {"n": 4}}, ["a", "b"])
    assert list(known.items()) == [("a", {"n": 4}), ("b", {"n": 3})]

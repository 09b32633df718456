"""The records of a submitted job: what is written is read again, and what is torn is no record."""

from __future__ import annotations

import pytest

from mnrun import versioned
from mnrun.jobs import records
from mnrun.jobs.records import Begun, Ended, Submitted


def test_each_record_is_read_as_it_was_written() -> None:
    """Paths of any bytes too."""
    asked = Submitted("12_3", "näme", "c1", 4, 8, ("python", "a b"), 5.5, "/h/%j.out", "", "/h/\udcff", 6)
    assert records.submitted(versioned.text(asked)) == asked
    start = Begun(7.0, "node[01-04]", "node01", "/h/12.out", "", "/h/ranks")
    assert records.begun(versioned.text(start)) == start
    end = Ended(9.0, 3, "a node was lost")
    assert records.outcome(versioned.text(end)) == end


def test_a_record_is_one_line_and_ends() -> None:
    """So that a person and a shell can read it."""
    assert versioned.text(Ended(1, 0)) == '{"version": 1, "time": 1, "code": 0, "why": ""}\n'


def test_what_a_record_need_not_say() -> None:
    """A script in bash writes what it knows."""
    assert records.submitted('{"id": "7"}') == Submitted("7")
    assert records.named("/h/%x-%A_%a.out", "7_4", "app", "me") == "/h/app-7_4.out"
    assert [records.named("/h/%j.out", job, "app", "me") for job in ("7", "7_4")] == ["/h/7.out", ""]
    assert records.submitted('{"id": 7, "command": "odd", "nodes": "odd", "name": 3}') == Submitted("7")
    assert records.begun('{"time": 1700000000}') == Begun(1700000000.0)
    assert records.outcome('{"code": 3}') == Ended(0.0, 3)


@pytest.mark.parametrize("torn", ["", "{", '{"time": 17', "[]", "7", '{"id": "../x"}', "null"])
def test_what_is_torn_is_no_record(torn: str) -> None:
    """It is looked at again later."""
    assert records.submitted(torn) is None
    assert records.begun(torn) is None
    assert records.outcome(torn) is None


@pytest.mark.parametrize(
    ("text", "good"),
    [("123", True), ("123_4", True), ("0", False), ("12_[0-3]", False), ("../1", False), ("", False), ("٣", False)],
)
def test_an_id_is_one_that_slurm_gives(text: str, good: bool) -> None:
    """It becomes a part of a path."""
    assert records.is_id(text) is good


def test_starts_of_a_job() -> None:
    """In their order, whatever else lies there."""
    assert records.restarts(["submitted", "10", "2", "0", "script", "03", ".new"]) == [0, 2, 10]


def test_files_of_the_ranks() -> None:
    """Each way."""
    assert records.rank_of(records.rank_file(12, "err")) == (12, "err")
    assert records.rank_of("rank.x.out") is None

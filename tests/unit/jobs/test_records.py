"""The records of a submitted job: what is written is read again, and what is torn is no record."""

from __future__ import annotations

import pytest

from mnrun import versioned
from mnrun.jobs import records
from mnrun.jobs.records import Begun, Ended, Submitted
from mnrun.schedulers.vocabulary import is_id
from unit.cases import Cases


def test_each_record_is_read_as_it_was_written() -> None:
    asked = Submitted("12_3", "näme", "c1", 4, 8, ("python", "a b"), 5.5, "/h/%j.out", "", "/h/\udcff", 6)
    assert records.submitted(versioned.text(asked)) == asked
    start = Begun(7.0, "node[01-04]", "node01", "/h/12.out", "", "/h/ranks", True)
    assert records.begun(versioned.text(start)) == start
    end = Ended(9.0, 3, "a node was lost")
    assert records.outcome(versioned.text(end)) == end


def test_a_record_is_one_line_and_ends() -> None:
    assert versioned.text(Ended(1, 0)) == '{"version": 1, "time": 1, "code": 0, "why": "", "reason": ""}\n'


def test_what_a_record_need_not_say() -> None:
    """A script in bash writes what it knows."""
    assert records.submitted('{"id": "7"}') == Submitted("7")
    assert records.submitted('{"id": 7, "command": "odd", "nodes": "odd", "name": 3}') == Submitted("7")
    assert records.begun('{"time": 1700000000}') == Begun(1700000000.0)
    assert records.outcome('{"code": 3}') == Ended(0.0, 3)


def test_the_file_of_a_jobs_output(cases: Cases) -> None:
    """A task has a number of its own."""
    cases(lambda pattern, job: " ".join(map(str, Submitted("7", "app", output=pattern).files(job, "me"))))


@pytest.mark.parametrize("torn", ["", "{", '{"time": 17', "[]", "7", '{"id": "../x"}', "null"])
def test_what_is_torn_is_no_record(torn: str) -> None:
    assert records.submitted(torn) is None
    assert records.begun(torn) is None
    assert records.outcome(torn) is None


def test_an_id_is_one_that_slurm_gives(cases: Cases) -> None:
    cases(is_id)


def test_starts_of_a_job() -> None:
    assert records.restarts(["submitted", "10", "2", "0", "script", "03", ".new"]) == [0, 2, 10]


def test_files_of_the_ranks() -> None:
    assert records.rank_of("rank.12.err") == (12, "err")
    assert records.rank_of("rank.x.out") is None

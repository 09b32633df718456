"""The last lines of the rank that failed first, wherever they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mnrun.attach import history
from mnrun.jobs.records import LOG
from mnrun.jobs.state import JobView
from mnrun.schedulers.vocabulary import JobState

VIEW = JobView("7", "train", JobState.FAILED, "", 2, "n[1-2]", 0, None, 1, 0.0)
TRACE = ("Traceback (most recent call last):", '  File "train.py", line 1, in <module>', "ValueError: 3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    (tmp_path / LOG).write_text("rank n2 2 88\nrank n2 3 89\nended n2 2 1\nended n2 3 1\n")
    (tmp_path / LOG).chmod(0o600)
    return tmp_path


@pytest.mark.parametrize(
    ("lines", "shown", "own"),
    [
        (("2: a", "3: b", " 2: c"), ("a", "c"), True),
        (("noise", *TRACE, "more"), TRACE, True),
        ((*TRACE, *TRACE), (*TRACE, *TRACE), False),  # of two ranks, and nobody knows whose
        (("noise", "12: a"), ("noise", "12: a"), False),
    ],
)
def test_lines_in_the_output_of_all(folder: Path, lines: tuple[str, ...], shown: tuple[str, ...], own: bool) -> None:
    end = history.ended(VIEW, folder, lines)
    assert end.first is not None and end.first.rank == 2
    assert (end.output, end.of_rank) == (shown[-history.SHOWN :], own)


def test_lines_in_its_own_files_come_first(folder: Path) -> None:
    files = {}
    for rank in (2, 3):
        for stream in ("out", "err"):
            files[rank, stream] = folder / f"rank.{rank}.{stream}"
            files[rank, stream].write_text(f"{stream} of {rank}\n")
    end = history.ended(VIEW, folder, ("2: labelled",), files)
    assert (end.output, end.of_rank) == (("out of 2", "err of 2"), True)


def test_a_job_that_was_cancelled_has_no_rank_that_failed(folder: Path) -> None:
    end = history.ended(replace(VIEW, state=JobState.CANCELLED), folder, ("2: a",))
    assert (end.first, end.output, end.of_rank) == (None, ("2: a",), False)

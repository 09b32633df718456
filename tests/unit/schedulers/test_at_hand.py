"""Which scheduler a process has to do with."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pytest_mock import MockerFixture

from mnrun import schedulers


def played(variable: str, here: bool) -> SimpleNamespace:
    """A scheduler whose jobs have this variable, and whose commands this machine has, or not."""
    return SimpleNamespace(job=lambda environ: environ.get(variable, ""), is_here=lambda: here)


@pytest.mark.parametrize(
    ("environ", "here", "name"),
    [
        ({"B_JOB": "7"}, {"a", "b"}, "b"),
        ({"B_JOB": ""}, {"a", "b"}, "a"),
        ({}, {"b"}, "b"),
        ({}, set(), "a"),
    ],
)
def test_the_scheduler_at_hand(mocker: MockerFixture, environ: dict[str, str], here: set[str], name: str) -> None:
    """That of the surrounding job, else that of this machine, else the first of the table."""
    table = {name: played(f"{name.upper()}_JOB", name in here) for name in ("a", "b")}
    mocker.patch.object(schedulers, "BATCH", table)
    assert schedulers.at_hand(environ) is table[name]

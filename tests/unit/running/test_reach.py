"""The choice of a way to the nodes, for schedulers that have one or none."""

from __future__ import annotations

from typing import Any

import pytest

from mnrun.errors import Impossible, UsageError
from mnrun.running.nodes import refuse_reach
from mnrun.schedulers import BATCH
from unit.samples import build
from unit.texts import Refused


@pytest.mark.parametrize(
    ("scheduler", "given"),
    [
        ("slurm", {"reach": "call"}),
        ("sge", {"reach": "ssh"}),
        ("sge", {"reach": "call", "local": True}),
        ("sge", {"reach": "qrsh", "hosts": "n1"}),
    ],
    ids=("slurm", "sge", "local", "hosts"),
)
def test_a_way_that_a_scheduler_lacks(refused: Refused, scheduler: str, given: dict[str, Any]) -> None:
    with refused(Impossible):
        refuse_reach(build("./app", **given), BATCH[scheduler])


def test_a_way_that_it_has() -> None:
    for reach in ("auto", "qrsh", "call:10.0.0.1"):
        refuse_reach(build("./app", reach=reach), BATCH["sge"])
    refuse_reach(build("./app", reach="auto", hosts="n1"), BATCH["slurm"])
    assert build("./app", reach="call:fe80::1").way.address == "fe80::1"


@pytest.mark.parametrize("text", ("call:", "ssh:node01", "call:a b", "call:a,b"))
def test_no_way(refused: Refused, text: str) -> None:
    with refused(UsageError):
        build("./app", reach=text)

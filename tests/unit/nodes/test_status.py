"""What the guards say, understood."""

from __future__ import annotations

from ast import literal_eval

import pytest

from mnrun.errors import NodeError
from mnrun.model import Unwell
from mnrun.nodes.status import Roster
from unit.cases import Cases
from unit.samples import build, make
from unit.texts import Refused, Says


@pytest.fixture
def roster() -> Roster:
    return Roster(("node01", "node02"))


def test_what_is_heard(cases: Cases) -> None:
    """The words of lines that are understood, and all that is known after them."""

    def known(lines: str, unwell: str) -> str:
        roster = Roster(("node01", "node02"))
        words = [roster.hear(line) for line in literal_eval(lines).split("; ")]
        alive = unwell.endswith(" (not dead)")
        found = {
            **{"heard": words, "workers": list(roster.workers.values()), "complete": roster.complete},
            **{"settled": roster.settled, "missing": roster.missing, "answered": sorted(roster.answered)},
            **{"ranks": roster.ranks, "alone": roster.alone, "first_bad": roster.first_bad, "culprit": roster.culprit},
            **{"bye": sorted(roster.bye), "survivors": roster.survivors, "failed": sorted(roster.failed)},
            "in_order": [worker.name for worker in roster.in_order()] if roster.complete else "",
            "why": roster.why(
                "node01", {"node01": Unwell(unwell.removesuffix(" (not dead)"), dead=not alive)} if unwell else {}
            ),
        }
        return "; ".join(f"{name} {value}" for name, value in found.items() if value)

    cases(known)


PLAN = make(build("./app"), 1, 1)


@pytest.mark.parametrize(("first", "second"), [("1.7", "1.7"), ("", "")])
def test_image_files_that_are_alike(roster: Roster, first: str, second: str) -> None:
    roster.hear(f"ready node01 image={first}")
    roster.hear(f"ready node02 image={second}")
    roster.check_images(PLAN)


@pytest.mark.parametrize("second", ["directory", "1.8"])
def test_image_files_that_differ(refused: Refused, roster: Roster, second: str) -> None:
    roster.hear("ready node01 image=1.7")
    roster.hear(f"ready node02 image={second}")
    with refused(NodeError):
        roster.check_images(PLAN)


def test_ranks_that_do_not_come(roster: Roster, says: Says) -> None:
    assert str(roster.not_started(make(build("./app"), 1))).startswith("1 of 1 rank, of node01, not started 120 s")
    plan = make(build("./app"), 2, 2)
    for rank in (0, 1):
        roster.hear(f"rank node01 {rank} 4")
    assert not roster.all_there(plan)
    late = roster.not_started(plan)
    assert late.code == 124
    says(late)
    for rank in (2, 3):
        roster.hear(f"rank node02 {rank} 4")
    assert roster.all_there(plan)

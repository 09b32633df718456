"""Answers for what a scheduler lacks."""

from __future__ import annotations

from mnrun.errors import Impossible
from mnrun.model import Site
from mnrun.schedulers import common
from unit.samples import build
from unit.texts import Refused


def test_another_schedulers_program_starts_no_ranks(refused: Refused) -> None:
    common.refuse(build("./app", mode="outside-in"), Site("other", "7"))
    with refused(Impossible):
        common.refuse(build("./app", mpi="pmix"), Site("other", "7"))

"""Names of nodes, folded as Slurm writes them and back."""

from __future__ import annotations

import random

import pytest
from ClusterShell.NodeSet import NodeSet

from mnrun import nodeset
from unit.cases import Cases


def test_expand(cases: Cases) -> None:
    cases(lambda text: " ".join(nodeset.expand(text)))


def test_fold(cases: Cases) -> None:
    cases(lambda names: nodeset.fold(tuple(names.split())))


def test_fold_is_that_of_clustershell() -> None:
    dice = random.Random(1)
    for _ in range(300):
        numbers = [dice.randrange(130) for _ in range(dice.randrange(2, 20))] + list(range(95, 105))
        if dice.random() < 0.5:
            dice.shuffle(numbers)
        names = [f"{dice.choice(('n', 'n', 'r1n'))}{number:0{dice.choice((0, 0, 3))}}" for number in numbers]
        assert nodeset.fold(names) == str(NodeSet.fromlist(names))


def test_brackets_for_slurm_are_last(cases: Cases) -> None:
    """Slurm refuses whatever comes after them."""

    def folded(names: str) -> str:
        text = nodeset.fold_ends(tuple(names.split()))
        assert set(nodeset.expand(text)) == set(names.split())
        return text

    cases(folded)


@pytest.mark.parametrize("text", ["node[01-64]", "r[1-4]n[01-32]", "a,b[1-2]"])
def test_fold_undoes_expand(text: str) -> None:
    assert nodeset.fold(nodeset.expand(text)) == text


PLAIN = ("node7", "n-a.b_c", "node[01-03]", "n0[1-2]", "node[009-011]", "a1[0-1]", "r1i0n[0-3]", "node[3-3]")


@pytest.mark.parametrize("text", (*PLAIN, ",".join(PLAIN), "node[01-03],node[02-04]"))
def test_plain_names_are_those_of_clustershell(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = nodeset.expand(text)
    monkeypatch.setattr(nodeset, "_plain", lambda part: ())
    assert nodeset.expand(text) == mine

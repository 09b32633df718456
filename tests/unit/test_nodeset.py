"""Names of nodes, folded as Slurm writes them and back."""

from __future__ import annotations

import random

import pytest
from ClusterShell.NodeSet import NodeSet

from mnrun import nodeset
from mnrun.errors import UsageError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node01", ("node01",)),
        ("node[01-03]", ("node01", "node02", "node03")),
        ("node[01-02,07]", ("node01", "node02", "node07")),
        ("node[8-11]", ("node8", "node9", "node10", "node11")),
        ("b,a", ("b", "a")),
        ("node[03-04],node01", ("node03", "node04", "node01")),
        ("node01,node[01-02]", ("node01", "node02")),
        (" a , b ", ("a", "b")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("login,dgx-a[1-2].site", ("login", "dgx-a1.site", "dgx-a2.site")),
        ("", ()),
        ("(null)", ("(null)",)),
    ],
)
def test_expand(text: str, names: tuple[str, ...]) -> None:
    """Each name once, in the order of writing."""
    assert nodeset.expand(text) == names


@pytest.mark.parametrize("text", ["node[01", "node[a-b]", "node[3-1]", "node]1["])
def test_expand_refuses_what_is_no_list(text: str) -> None:
    """The text is in the line, and how a list is written."""
    with pytest.raises(UsageError) as wrong:
        nodeset.expand(text)
    assert str(wrong.value).startswith(f"{text!r} is not a list of nodes (")
    assert wrong.value.remedy == "write node[01-04,7] or a,b,c"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("node01", "node02", "node03"), "node[01-03]"),
        (("node03", "node01"), "node[01,03]"),
        (("login", "node01"), "login,node01"),
        ((), ""),
        (("n8", "n9", "n10", "n11"), "n[8-11]"),
        (("n08", "n09", "n10", "n11"), "n[08-11]"),
        (("r1n1", "r1n2", "r2n1", "r2n2"), "r[1-2]n[1-2]"),
        (("a", "b", "a1", "a2", "a2"), "a,a[1-2],b"),
    ],
)
def test_fold(names: tuple[str, ...], text: str) -> None:
    """For people."""
    assert nodeset.fold(names) == text


def test_fold_is_that_of_clustershell() -> None:
    """Whatever the names are, and in whichever order."""
    dice = random.Random(1)
    for _ in range(300):
        numbers = [dice.randrange(130) for _ in range(dice.randrange(2, 20))] + list(range(95, 105))
        if dice.random() < 0.5:
            dice.shuffle(numbers)
        names = [f"{dice.choice(('n', 'n', 'r1n'))}{number:0{dice.choice((0, 0, 3))}}" for number in numbers]
        assert nodeset.fold(names) == str(NodeSet.fromlist(names))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("node01", "node02", "node03", "node07"), "node[01-03],node07"),
        (("n9", "n10", "n11"), "n9,n[10-11]"),
        (("r1i0n0", "r1i1n0"), "r1i0n0,r1i1n0"),
        (("r1n1", "r1n2", "r2n1", "r2n2"), "r1n[1-2],r2n[1-2]"),
        (("node01.hpc.site", "node02.hpc.site"), "node01.hpc.site,node02.hpc.site"),
        ((), ""),
    ],
)
def test_brackets_for_slurm_are_last(names: tuple[str, ...], text: str) -> None:
    """Slurm refuses whatever comes after them."""
    assert nodeset.for_slurm(names) == text
    assert set(nodeset.expand(text)) == set(names)


@pytest.mark.parametrize("text", ["node[01-64]", "r[1-4]n[01-32]", "a,b[1-2]"])
def test_fold_undoes_expand(text: str) -> None:
    """Nothing is lost on the way."""
    assert nodeset.fold(nodeset.expand(text)) == text

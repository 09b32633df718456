"""The one format in which nodes report facts, and what is made of anything else."""

from __future__ import annotations

import random

import pytest

from mnrun import facts
from mnrun.facts import LONGEST, Fact, parse

TEXTS = ("", "yes", "apptainer version 1.4.5", "a=1 b=2", "ü ☃ \u2028 x", "fact n node a b", "=", "0" * LONGEST)
# Lines of other formats, and what a hostile or broken node may send.
NOISE = (
    *("", "Welcome!", "cpus 8", "n1\tuserns\tyes", "node\tmpi\topenmpi", "srun: error: n1: x", "ready n1 address=1"),
    *("fact", "fact ", "fact n1", "fact n1 ", "fact n1 node", "fact  node a b", "FACT n1 node a b"),
    " fact n1 node a b",
    *("\x1b[31mfact n1 node a b", "fact \x1b[31mn1 node a b", "fact n1 no\0de a b", "fact n1 node \x07 b"),
    *("fact n1 \udcff a b", "fact n1 node", "fact n1\tnode\ta\tb", "\t" * 9, "\0" * 9, "x" * (1 << 20)),
    *(f"fact {'n' * 300} node a b", f"fact n1 node {'a' * 300} b", "fact n1 " + "\t" * 1000),
)


def line(fact: Fact) -> str:
    return " ".join(("fact", *fact)).rstrip(" ")


def test_facts_one_to_a_line_and_many() -> None:
    text = "fact n1 nic eth0 kind=physical state=up\tfeature verbs\tlimit shm 1\nfact n2 node bash 5.2.37(1)\r\n"
    assert parse(text) == [
        Fact("n1", "nic", "eth0", "kind=physical state=up"),
        Fact("n1", "feature", "verbs", ""),
        Fact("n1", "limit", "shm", "1"),
        Fact("n2", "node", "bash", "5.2.37(1)"),
    ]


@pytest.mark.parametrize("noise", NOISE, ids=lambda noise: repr(noise)[:30])
def test_other_lines_are_skipped(noise: str) -> None:
    assert parse(noise) == []
    good = "fact n1 node a b"
    assert parse(f"{good}\n{noise}\n{good}") == [Fact("n1", "node", "a", "b")] * 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "?[31mred?[0m"),
        ("a\0b\x85c\x7f\x9b2J", "a?b?c??2J"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), "caf?"),
        ("x" * (1 << 20), "x" * LONGEST),
        ("  two  blanks  ", "two  blanks"),
    ],
    ids=["ansi", "control", "not UTF-8", "1 MB", "blanks"],
)
def test_a_value_is_not_trusted(value: str, expected: str) -> None:
    assert parse(f"fact n1 node a {value}") == [Fact("n1", "node", "a", expected)]


@pytest.mark.parametrize("seed", range(50))
def test_what_is_written_is_read_whatever_comes_between(seed: int) -> None:
    dice = random.Random(seed)
    wanted = [
        Fact(f"n{dice.randrange(3)}", dice.choice(("node", "nic", "image")), f"x{number}", dice.choice(TEXTS).strip())
        for number in range(dice.randrange(1, 40))
    ]
    lines: list[str] = []
    for fact in wanted:
        before = lines[-1] if lines else ""
        if before.startswith(f"fact {fact.node} ") and before not in NOISE and dice.random() < 0.5:
            lines[-1] += "\t" + line(fact).split(" ", 2)[2]
            continue
        lines += [*dice.choices(NOISE, k=dice.randrange(3)), line(fact)]
    assert parse("\n".join(lines)) == wanted


@pytest.mark.parametrize("seed", range(200))
def test_any_bytes_give_harmless_facts(seed: int) -> None:
    dice = random.Random(seed)
    pieces = (
        *(b"fact ", b"n1 ", b"node ", b"\t", b"\n", b" ", b"a", b"\x1b[2J", b"\0", b"\r", b"\xff", b"\xc2\x9b"),
        b"\xe2",
    )
    data = b"".join(
        dice.choice(pieces) if dice.random() < 0.9 else dice.randbytes(3) for _ in range(dice.randrange(4000))
    )
    read = parse(data.decode("utf-8", dice.choice(("replace", "surrogateescape"))))
    for fact in read:
        assert all((fact.node, fact.subject, fact.name))
        assert len(fact.value) <= LONGEST
        assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in "".join(fact))
        "".join(fact).encode()
    assert parse("\n".join(map(line, read))) == read


def test_facts_of_each_node_and_subject() -> None:
    read = parse("fact n1 node a 1\nfact n2 node a 2\nfact n1 node a 3\nfact n1 image a 4\n")
    assert {node: [fact.value for fact in some] for node, some in facts.by_node(read).items()} == {
        "n1": ["1", "3", "4"],
        "n2": ["2"],
    }
    assert facts.values(read, "image") == {"a": "4"}
    assert facts.values(facts.by_node(read)["n1"], "node") == {"a": "3"}

"""Parse the lines in which nodes report facts. Reads no file.

fact NODE SUBJECT NAME VALUE[<tab>SUBJECT NAME VALUE…]

Every script that mnrun sends to nodes reports in this format (docs/internals/facts.md). A value may be empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from sys import intern  # thousands of nodes report the same words

from mnrun.record import Record

LONGEST = 4096  # letters of a value: a bridge names each of its ports in one
# Control characters, and surrogates, which stand for bytes that are no UTF-8 (PEP 383).
_CONTROL = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
_WORD = rf"[^\s{_CONTROL}]{{1,255}}"
_LINE = re.compile(rf"fact ({_WORD}) (.*)", re.DOTALL)
_UNPRINTABLE = re.compile(f"[{_CONTROL}]")
_FACT = re.compile(rf"({_WORD}) ({_WORD})(?: +(.*))?", re.DOTALL)


class Fact(Record):
    """One fact of a node: a property of a subject, such as of the NIC eth0."""

    node: str
    subject: str
    name: str
    value: str


def parse(text: str) -> list[Fact]:
    """Return the facts in the output of nodes. Other lines are skipped, such as those of a login shell's profile."""
    lines = (match for line in text.split("\n") if (match := _LINE.fullmatch(line)))
    items = ((line[1], _FACT.fullmatch(item.strip())) for line in lines for item in line[2].split("\t"))
    found = ((node, item[1], item[2], _UNPRINTABLE.sub("?", (item[3] or "")[:LONGEST])) for node, item in items if item)
    return [Fact(node, *map(intern, words)) for node, *words in found]


def lines(facts: Iterable[Fact]) -> str:
    """Return facts as lines in which nodes report them."""
    return "".join(f"fact {' '.join(fact)}\n" for fact in facts)


def by_node(facts: Iterable[Fact]) -> dict[str, list[Fact]]:
    """Return node -> its facts."""
    nodes: dict[str, list[Fact]] = {}
    for fact in facts:
        nodes.setdefault(fact.node, []).append(fact)
    return nodes


def values(facts: Iterable[Fact], subject: str) -> dict[str, str]:
    """Return name -> value of a subject's facts. The last one of a name counts."""
    return {fact.name: fact.value for fact in facts if fact.subject == subject}

"""Convert node names by ClusterShell's NodeSet: `dgx[01-03,7]` to names and back. No other module uses NodeSet."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping

from mnrun.errors import UsageError

DIGITS = "0123456789"
MOST = 100_000  # nodes of a list: NodeSet would fill the memory
LONGEST = 255  # digits of a number: Python converts 4300


def expand(text: str) -> tuple[str, ...]:
    """Return the names in a node set, in their order: `node[01-03]` gives ("node01", "node02", "node03").

    Groups of ClusterShell are no names here: its files may run commands. Raises UsageError if the text is no node set.
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    names: dict[str, None] = {}
    try:
        for part in _parts(text):
            _refuse(part)
            names.update(dict.fromkeys(NodeSet(part, resolver=RESOLVER_NOGROUP)))
    except (NodeSetException, ValueError, AssertionError) as error:  # its RangeSet asserts that a range is no larger
        shown = text if len(text) <= LONGEST else f"{text[:40]}…"
        raise UsageError(f"{shown!r} is not a list of nodes ({error})", "write node[01-04,7] or a,b,c") from None
    return tuple(names)


def _refuse(part: str) -> None:
    """Raise ValueError for a part that NodeSet would misread, or would take minutes and gigabytes for."""
    if not part.isascii():
        raise ValueError("a letter that is not ASCII")
    if re.search(rf"\d{{{LONGEST + 1},}}", part):
        raise ValueError(f"a number of more than {LONGEST} digits")
    count = 1
    for ranges in re.findall(r"\[([^\]]*)", part):
        ends = re.findall(r"(\d+)-(\d+)", ranges)
        count *= ranges.count(",") + 1 + sum(max(int(last) - int(first), 0) for first, last in ends)
    if count > MOST:
        raise ValueError(f"more than {MOST} nodes")


def fold(names: Iterable[str]) -> str:
    """Return names as a node set: ("node01", "node02") gives `node[01-02]`."""
    some = tuple(names)
    if len(some) == 1:  # many jobs have one node, and no use for ClusterShell
        return some[0]
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    return str(NodeSet.fromlist(list(_ranges(some)), resolver=RESOLVER_NOGROUP))


def for_slurm(names: Iterable[str]) -> str:
    """Return names, each once, as Slurm reads them: `r1i0n[0-3],r1i1n0`. Its brackets stand at the end of a name
    (slurm.conf(5), NodeName), so only the last digits fold."""
    return ",".join(_ranges(dict.fromkeys(names)))


def _ranges(names: Iterable[str]) -> Iterator[str]:
    """Yield the names, with neighbours of consecutive numbers as one range: NodeSet takes 20 µs for each word."""
    for _, neighbours in itertools.groupby(enumerate(names), key=lambda pair: _run(*pair)):
        first, *others = (name for _, name in neighbours)
        prefix = first.rstrip(DIGITS)
        yield f"{prefix}[{first[len(prefix) :]}-{others[-1][len(prefix) :]}]" if others else first


def _run(place: int, name: str) -> tuple[str, int, int]:
    """Return what a name shares with its neighbours of consecutive numbers."""
    prefix = name.rstrip(DIGITS)
    digits = name[len(prefix) :]
    return prefix, len(digits), int(digits or 0) - place


def folded(reasons: Mapping[str, str]) -> str:
    """Return reasons with their nodes: `node[01-03]: reason; node04: another`."""
    nodes: dict[str, list[str]] = {}
    for node, reason in reasons.items():
        nodes.setdefault(reason, []).append(node)
    return "; ".join(f"{fold(names)}: {reason}" for reason, names in nodes.items())


def _parts(text: str) -> tuple[str, ...]:
    """Return the text split at the commas outside brackets. NodeSet itself would sort the names."""
    parts, depth, word = [], 0, ""
    for char in text:
        depth += (char == "[") - (char == "]")
        if char == "," and depth == 0:
            parts.append(word)
            word = ""
        else:
            word += char
    return tuple(part.strip() for part in [*parts, word] if part.strip())


def counts(numbers: Mapping[str, int]) -> str:
    """Return numbers with their nodes, grouped by number: `node[01-02] x 4, node03 x 2`."""
    alike: dict[int, list[str]] = {}
    for node, count in sorted(numbers.items()):
        alike.setdefault(count, []).append(node)
    return ", ".join(f"{fold(nodes)} x {count}" for count, nodes in alike.items()) or "no node"


def counted(number: object, noun: str) -> str:
    """Return a number with its noun: `1 node`, `2 nodes`, `2-3 ranks`."""
    return f"{number} {noun}" + ("" if str(number) == "1" else "s")

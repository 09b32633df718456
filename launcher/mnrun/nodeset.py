"""Convert node names by ClusterShell's NodeSet: `dgx[01-03,7]` to names and back. No other module uses NodeSet."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from mnrun.errors import UsageError

T = TypeVar("T")
DIGITS = "0123456789"
MOST = 100_000  # nodes of a list: NodeSet would fill the memory
LONGEST = 255  # digits of a number: Python converts 4300


def expand(text: str) -> tuple[str, ...]:
    """Return the names in a node set, in their order: `node[01-03]` gives ("node01", "node02", "node03").

    Groups of ClusterShell are no names here: its files may run commands. Raises UsageError if the text is no node set.
    """
    parts = _parts(text)
    plain = [_plain(part) for part in parts]
    if all(plain):
        return tuple(dict.fromkeys(itertools.chain(*plain)))
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    names: dict[str, None] = {}
    try:
        for part in parts:
            _refuse(part)
            names.update(dict.fromkeys(NodeSet(part, resolver=RESOLVER_NOGROUP)))
    except (NodeSetException, ValueError, AssertionError) as error:  # its RangeSet asserts that a range is no larger
        shown = text if len(text) <= LONGEST else f"{text[:40]}…"
        raise UsageError(f"{shown!r} is not a list of nodes ({error})", "write node[01-04,7] or a,b,c") from None
    return tuple(names)


def _plain(part: str) -> Sequence[str]:
    """Return the names of a part such as `node7` and `node[01-03]`, or none if that takes ClusterShell, whose import
    takes 7 ms of a launch."""
    found = re.fullmatch(r"([A-Za-z][A-Za-z0-9._-]{0,200})(?:\[(\d{1,5})-(\d{1,5})\])?", part, re.ASCII)
    if found is None or len(found[2] or "") != len(found[3] or ""):
        return ()
    if found[2] is None:
        return (part,)
    return [f"{found[1]}{number:0{len(found[2])}}" for number in range(int(found[2]), int(found[3]) + 1)]


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
    ranges = list(_ranges(names))
    if len(ranges) < 2:  # many jobs have neighbours, and no use for ClusterShell
        return "".join(ranges)
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    return str(NodeSet.fromlist(ranges, resolver=RESOLVER_NOGROUP))


def fold_ends(names: Iterable[str]) -> str:
    """Return names, each once, with brackets at their ends alone: `r1i0n[0-3],r1i1n0`."""
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


def grouped(pairs: Iterable[tuple[str, T]]) -> list[tuple[str, T]]:
    """Return (nodes, value) for each value of these (node, value), in the order of the first nodes."""
    nodes: dict[T, list[str]] = {}
    for node, value in pairs:
        nodes.setdefault(value, []).append(node)
    return [(fold(names), value) for value, names in nodes.items()]


def folded(reasons: Mapping[str, str]) -> str:
    """Return reasons with their nodes: `node[01-03]: reason; node04: another`."""
    return "; ".join(f"{nodes}: {reason}" for nodes, reason in grouped(reasons.items()))


def _parts(text: str) -> tuple[str, ...]:
    """Return the text split at the commas outside brackets. NodeSet itself would sort the names."""
    parts = re.findall(r"(?:\[[^\]]*\]?|[^,\[])+", text)
    return tuple(part.strip() for part in parts if part.strip())


def counts(numbers: Mapping[str, int]) -> str:
    """Return numbers with their nodes, grouped by number: `node[01-02] x 4, node03 x 2`."""
    return ", ".join(f"{nodes} x {count}" for nodes, count in grouped(sorted(numbers.items()))) or "no node"


def counted(number: object, noun: str) -> str:
    """Return a number with its noun: `1 node`, `2 nodes`, `2-3 ranks`."""
    return f"{number} {noun}" + ("" if str(number) == "1" else "s")

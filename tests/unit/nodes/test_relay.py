"""What nodes say to each other: where it goes, and who is told that it goes nowhere."""

from __future__ import annotations

from ast import literal_eval

from mnrun.nodes.relay import LONGEST, join, route
from unit.cases import Cases

NODES = ("node01", "node02")


def test_where_a_line_goes(cases: Cases) -> None:
    """Who asks is told once. The second part is a node that is gone, and why."""

    def routed(line: str, gone: str) -> object:
        node, _, why = gone.partition(": ")
        return route(literal_eval(line), NODES, {node: why} if node else {})

    cases(routed)


def test_lines_of_data_that_follow_each_other_are_one() -> None:
    out = "answer node02 node01 7.1 out"
    lines = (
        f"{out}+ 0 aaaa",
        f"{out}+ 4 bbbb",
        f"{out} 8 cc==",
        f"{out}+ 12 dddd",
        "answer node02 node01 7.1 err+ 16 eeee",
        f"{out}+ 16 ffff",
        f"{out}+ 24 gggg",
        "ask node01 node02 7.1 took out",
        f"{out}+ 28 hhhh",
        "answer node02 node01 a2 out+ 32 iiii",
        f"{out} x jjjj",
        f"{out} 36",
    )
    assert list(join(lines)) == [
        f"{out} 0-12 aaaabbbbcc==",
        f"{out}+ 12-16 dddd",
        "answer node02 node01 7.1 err+ 16-20 eeee",
        f"{out}+ 16-20 ffff",
        f"{out}+ 24-28 gggg",
        "ask node01 node02 7.1 took out",
        f"{out}+ 28-32 hhhh",
        "answer node02 node01 a2 out+ 32-36 iiii",
        f"{out} x jjjj",
        f"{out} 36",
    ]


def test_no_line_is_too_long_for_a_pipe() -> None:
    start = "answer node02 node01 7.1 out+"
    width = (1022 - len(f"{start} 1000000 ")) // 4 * 4
    lines = [f"{start} {1000000 + n * width} {'x' * width}" for n in range(64)]
    joined = list(join(lines))
    assert len(joined) == 16
    assert max(map(len, joined)) <= LONGEST


def test_a_reason_is_no_longer_than_a_line() -> None:
    routed = route("ask node01 node02 7.1 run 0 0 ::true:", NODES, {"node02": "x" * 9000})
    assert routed
    assert len(routed[1]) == LONGEST

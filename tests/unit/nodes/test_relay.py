"""What nodes say to each other: where it goes, and who is told that it goes nowhere."""

from __future__ import annotations

import pytest

from mnrun.nodes.relay import LONGEST, join, route

NODES = ("node01", "node02")


@pytest.mark.parametrize(
    ("line", "gone", "routed"),
    [
        ("ask node01 node02 7.1 words :a  b :", {}, ("node02", "ask node02 node01 7.1 words :a  b :")),
        ("answer node02 node01 7.1 out QUJD", {}, ("node01", "answer node01 node02 7.1 out QUJD")),
        ("answer node02 node01 7.1 code 7", {}, ("node01", "answer node01 node02 7.1 code 7")),
        ("ask node01 node01 7.1 eof", {}, ("node01", "ask node01 node01 7.1 eof")),
        (
            "ask node01 node02 7.1 run 1",
            {"node02": "its container ended with 1"},
            ("node01", "answer node01 node02 7.1 no its container ended with 1"),
        ),
        ("ask node01 node09 7.1 run ", {}, ("node01", "answer node01 node09 7.1 no it is not a node of this job")),
        ("ask node01 node09 7.1 words QUJD", {}, None),  # who asks is told once
        ("answer node01 node02 7.1 out QUJD", {"node02": "gone"}, None),
        ("ask elsewhere node02 7.1 run ", {}, None),
        ("ask node01", {}, None),
        ("ask ", {}, None),
    ],
)
def test_where_a_line_goes(line: str, gone: dict[str, str], routed: tuple[str, str] | None) -> None:
    assert route(line, NODES, gone) == routed


def test_lines_of_data_that_follow_each_other_are_one() -> None:
    """Of one stream and one message, up to the length that a pipe keeps whole; whatever is missing stays missing."""
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
    """From lines as long as srun keeps whole."""
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

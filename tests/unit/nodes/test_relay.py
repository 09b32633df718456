"""What nodes say to each other: where it goes, and who is told that it goes nowhere."""

from __future__ import annotations

import pytest

from mnrun.nodes.relay import route

NODES = ("node01", "node02")


@pytest.mark.parametrize(
    ("line", "gone", "routed"),
    [
        ("ask node01 node02 a1 words QUJD", {}, ("node02", "ask node02 node01 a1 words QUJD")),
        ("answer node02 node01 a1 out QUJD", {}, ("node01", "answer node01 node02 a1 out QUJD")),
        ("answer node02 node01 a1 code 7", {}, ("node01", "answer node01 node02 a1 code 7")),
        ("ask node01 node01 a1 eof", {}, ("node01", "ask node01 node01 a1 eof")),
        (
            "ask node01 node02 a1 run 1",
            {"node02": "its container ended with 1"},
            ("node01", "answer node01 node02 a1 no its container ended with 1"),
        ),
        ("ask node01 node09 a1 run ", {}, ("node01", "answer node01 node09 a1 no it is not a node of this job")),
        ("ask node01 node09 a1 words QUJD", {}, None),  # who asks is told once
        ("answer node01 node02 a1 out QUJD", {"node02": "gone"}, None),
        ("ask elsewhere node02 a1 run ", {}, None),
        ("ask node01", {}, None),
        ("ask ", {}, None),
    ],
)
def test_where_a_line_goes(line: str, gone: dict[str, str], routed: tuple[str, str] | None) -> None:
    assert route(line, NODES, gone) == routed

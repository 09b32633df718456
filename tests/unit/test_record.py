"""scripts/record: what a terminal shows, as an SVG."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

SCRIPT = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts/record"))


Look = tuple[float, float, str]  # from, to (0 for the last), and the text


def shown(*pieces: str) -> list[list[Look]]:
    """Return the looks of each line."""
    screen: Any = SCRIPT["Screen"]()
    for second, piece in enumerate(pieces):
        screen.feed(piece, float(second))
    return [[(since, to, "".join(char for char, _ in cells)) for since, to, cells in line] for line in screen.shown()]


def test_a_line_has_each_look_with_its_time() -> None:
    assert shown("$ ls\r\n", "wait", "\r\x1b[2Kdone\r\n") == [
        [(0.0, 0.0, "$ ls")],
        [(1.0, 2.0, "wait"), (2.0, 0.0, "done")],
    ]


def test_colours_and_other_sequences_are_not_text() -> None:
    assert shown("\x1b]0;title\x07\x1b[?25l\x1b[1;31mred\x1b[0m\r\n", "two\r\n\x1b[1A\x1b[2Kone\r\n") == [
        [(0.0, 0.0, "red")],
        [(1.0, 0.0, "one")],
    ]


def test_an_svg_holds_the_text_and_nothing_from_outside() -> None:
    screen: Any = SCRIPT["Screen"]()
    screen.feed("\x1b[32mok\x1b[0m <a & b>\r\n", 1.0)
    text = SCRIPT["svg"](screen)
    assert '<tspan class="c2">ok</tspan><tspan class=""> &lt;a &amp; b&gt;</tspan>' in text
    assert text.count("http") == 1  # the namespace

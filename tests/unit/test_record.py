"""scripts/record: what a terminal shows, as an SVG."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

SCRIPT = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts/record"))


def shown(*pieces: str) -> list[tuple[float, str]]:
    """(when, text) of every line, where one piece comes each second."""
    screen: Any = SCRIPT["Screen"]()
    for second, piece in enumerate(pieces):
        screen.feed(piece, float(second))
    return [(when, "".join(character for character, _ in cells)) for when, cells in screen.shown()]


def test_a_line_has_the_time_of_its_last_change() -> None:
    """A progress bar is written over."""
    assert shown("$ ls\r\n", "wait", "\r\x1b[2Kdone\r\n") == [(0.0, "$ ls"), (2.0, "done")]


def test_colours_and_other_sequences_are_not_text() -> None:
    """A title, a hidden cursor, bold, a line up."""
    assert shown("\x1b]0;title\x07\x1b[?25l\x1b[1;31mred\x1b[0m\r\n", "two\r\n\x1b[1A\x1b[2Kone\r\n") == [
        (0.0, "red"),
        (1.0, "one"),
    ]


def test_long_lines_go_on_in_the_next() -> None:
    """As in a terminal."""
    assert [len(text) for _, text in shown("x" * 150)] == [120, 30]


def test_an_svg_holds_the_text_and_nothing_from_outside() -> None:
    """Marks of XML are escaped; colours are classes."""
    screen: Any = SCRIPT["Screen"]()
    screen.feed("\x1b[32mok\x1b[0m <a & b>\r\n", 1.0)
    text = SCRIPT["svg"](screen)
    assert '<tspan class="c2">ok</tspan><tspan class=""> &lt;a &amp; b&gt;</tspan>' in text
    assert text.count("http") == 1  # the namespace

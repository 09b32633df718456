"""Make texts that people, files, nodes and Slurm may give: plain, odd, and nearly right."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

# Each has a meaning for a shell, a parser, a terminal or a list. A surrogate stands for a byte that is no UTF-8.
SPECIAL = " \t\n\r'\"$`\\;|&<>()*?[]{}!#~%^@,:=+-/._\x00\x01\x1a\x1b\x7f\x85\u2028\ufeff\u0663\u00b2\udcff"
NUMBERS = ("0", "00", "-1", "9" * 30, "9" * 5000, "1e999", "nan", "inf", "0x10", str(2**63), "\u0663", "\u00b2", "1.5")
LETTER = st.one_of(st.sampled_from(SPECIAL), st.characters(max_codepoint=127), st.characters(exclude_categories=["Cs"]))
TEXT = st.one_of(st.text(LETTER, max_size=40), st.sampled_from(NUMBERS))
WORD = st.text(LETTER.filter(lambda letter: letter != "\0"), max_size=40)  # of a command line: it has no NUL
VALUE = WORD
NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
HOST = st.from_regex(r"[a-z]([a-z0-9-]{0,6}[0-9a-z]{1,4})?", fullmatch=True)


@st.composite
def near(draw: DrawFn, samples: Sequence[str]) -> str:
    """Return one of the samples, with up to four places of it changed."""
    text = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 30)))
        text = text[:start] + draw(TEXT) + text[end:]
    return text


def texts(*samples: str) -> SearchStrategy[str]:
    """Return texts near the samples, and any others."""
    return st.one_of(near(samples), near(samples), TEXT)


def lines(samples: Sequence[str]) -> SearchStrategy[list[str]]:
    """Return lines, most of them near the samples. None has a newline."""
    return st.lists(near(samples).map(lambda line: line.replace("\n", " ")), max_size=12)

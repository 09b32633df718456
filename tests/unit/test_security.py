"""Each statement of docs/security.md has its tests in security.md. A new one has none yet, and fails."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/security.md"
ROWS = Path(__file__).with_name("security.md")


def sections(text: str, sign: str) -> Iterator[list[str]]:
    """Yield the lines of each part that begins with a sign, which goes."""
    yield from (part.splitlines() for part in re.split(f"^{sign} ", text, flags=re.MULTILINE)[1:])


# heading -> the beginning of each statement -> its tests, or the reason why there are none
PROMISES = {
    heading: {begin: [line.strip() for line in tests if line] for begin, *tests in sections("\n".join(rows), "-")}
    for heading, *rows in sections(ROWS.read_text(encoding="utf-8"), "##")
}


def statements(text: str) -> Iterator[tuple[str, str]]:
    """Yield each statement with its heading, on one line and without the signs of its form."""
    heading = ""
    for block in re.split(r"\n{2,}", text):
        lines = block.strip().splitlines()
        if lines and lines[0].startswith("#"):
            heading = lines.pop(0).lstrip("# ")
        if lines and lines[0].startswith("|"):
            yield from ((heading, line.strip("| ")) for line in lines[2:])
        elif lines:
            items = re.split(r"(?:\A|\n)- ", "\n".join(lines))
            yield from ((heading, " ".join(item.split())) for item in items if item)


def row(heading: str, statement: str) -> list[str]:
    return [begin for begin in PROMISES.get(heading, {}) if statement.startswith(begin)]


FOUND = list(statements(PAGE.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("heading", "statement"), FOUND, ids=[text[:40] for _, text in FOUND])
def test_a_statement_has_one_row(heading: str, statement: str) -> None:
    assert len(row(heading, statement)) == 1, f"name the tests of this statement: {statement}"


def test_each_row_is_a_statement() -> None:
    rows = [(heading, begin) for heading, table in PROMISES.items() for begin in table]
    assert sorted(rows) == sorted((heading, begin) for heading, text in FOUND for begin in row(heading, text))


def lost(tests: Iterable[str]) -> list[str]:
    """Return the tests, as FILE::FUNCTION, that are not there."""
    missing = []
    for name in sorted(set(tests)):
        file, _, function = name.partition("::")
        path = TESTS / (f"{file}.py" if "/" in file else f"live/{file}.py")
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if f"\ndef {function}(" not in text and f" import {function} as {function}\n" not in text:
            missing.append(name)
    return missing


def test_each_test_is_there() -> None:
    rows = [tests for table in PROMISES.values() for tests in table.values()]
    assert all(rows), "each row has tests, or a reason"
    assert lost(name for tests in rows for name in tests if not name.startswith("(")) == []
    assert lost(["test_ends::test_nothing"]) == ["test_ends::test_nothing"]


def test_a_new_statement_would_be_noticed() -> None:
    text = (
        "## Trust\n\n| a | b |\n|---|---|\n| row | why |\n\nA paragraph\nof two.\n\n- An item\n  of two.\n- Another.\n"
    )
    assert list(statements(text)) == [
        ("Trust", "row | why"),
        ("Trust", "A paragraph of two."),
        ("Trust", "An item of two."),
        ("Trust", "Another."),
    ]
    assert row("Trust", "A paragraph of two.") == []

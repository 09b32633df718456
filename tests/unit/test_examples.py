"""The table of examples/ names each of them, and says truly which of them a plain run of the tests types."""

from __future__ import annotations

import re
from pathlib import Path

from live import test_examples as live

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_table_of_examples() -> None:
    """A row for each folder, and a README in each."""
    rows = [line.strip("| ").split(" | ") for line in (EXAMPLES / "README.md").read_text().splitlines() if "](" in line]
    runs = {match[1]: row[-1] for row in rows if (match := re.match(r"\[(.+)\]\(\1\)$", row[0]))}
    assert sorted(runs) == sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
    assert sorted(runs) == sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
    assert {name for name, when in runs.items() if when == "yes"} == {example.folder for example in live.QUICK}
    slow = {example.folder for example in (*live.SLOW, live.REFRAME, live.SCALING)}
    assert {name for name, when in runs.items() if when == "`--full`"} == slow


def test_an_example_shows_what_it_prints() -> None:
    """What a live test compares with nothing could not fail."""
    for example in (*live.QUICK, *live.SLOW, live.REFRAME, live.SCALING):
        steps = live.shown(example.folder)
        assert steps and any(printed for _, printed in steps), example.folder

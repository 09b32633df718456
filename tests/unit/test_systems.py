"""docs/reference/systems.md is written from tests/systems.toml, which names the live test of each feature."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from unit.test_security import lost
from unit.texts import Expected

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TESTS = Path(__file__).parents[1]
TABLE: dict[str, Any] = tomllib.loads((TESTS / "systems.toml").read_text(encoding="utf-8"))
HEAD = """# Systems

What mnrun does on each scheduler, and how that is known. `seen` was run by a live test on a real cluster
([Testing](../testing.md)), which the last table names. `stand-in` was run by a live test on programs of ours that play
the scheduler, and on no real one. `tried by hand` was run by a person on a real one, and no test repeats it.
`text only` follows manual pages, and was never run.
[Options in the words of each scheduler](words.md) has the texts.

"""
STAND_IN = "stand-in "  # before the test's name in a cell


def shown_by(cell: str) -> str:
    """Return the test in a cell, or "" for a reason why there is none."""
    return cell.removeprefix(STAND_IN) if "::" in cell else ""


def mark(cell: str) -> str:
    return cell if not shown_by(cell) else STAND_IN.strip() if cell.startswith(STAND_IN) else "seen"


def page() -> str:
    """Return the documentation's page."""
    systems = TABLE["systems"]
    lines = [f"| | {' | '.join(systems.values())} |", "|---" * (len(systems) + 1) + "|"]
    for name, row in TABLE["features"].items():
        lines.append(f"| {name} | {' | '.join(mark(row[system]) for system in systems)} |")
    lines += ["", "## Versions", "", "| system | where | seen |", "|---|---|---|"]
    lines += [f"| {one['system']} | {one['place']} | {one['seen']} |" for one in TABLE["versions"]]
    tests = {
        name: [*dict.fromkeys(filter(None, map(shown_by, row.values())))] for name, row in TABLE["features"].items()
    }
    tests.update({one["system"]: one["tests"] for one in TABLE["versions"] if "tests" in one})
    lines += ["", "## The tests", "", "They are in `tests/live`.", "", "| feature or version | tests |", "|---|---|"]
    lines += [f"| {name} | {', '.join(f'`{test}`' for test in named)} |" for name, named in tests.items()]
    return HEAD + "\n".join(lines) + "\n"


def test_the_page_is_written_from_the_table(expected: Expected) -> None:
    expected(TESTS.parent / "docs/reference/systems.md", page())


def test_each_feature_says_something_of_each_system() -> None:
    assert [name for name, row in TABLE["features"].items() if list(row) != list(TABLE["systems"])] == []


def test_each_test_is_there() -> None:
    named = [shown_by(cell) for row in TABLE["features"].values() for cell in row.values() if shown_by(cell)]
    assert lost([*named, *(test for one in TABLE["versions"] for test in one.get("tests", ()))]) == []

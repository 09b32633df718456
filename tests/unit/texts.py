"""Whole texts that are kept beside the tests, compared line by line.

A change shows as the lines that changed, with the command that accepts them; the diff of
the golden file then goes into the same commit, where a reviewer reads what users will see.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from .world import World

GOLDEN = Path(__file__).parent / "golden"


class Expected:
    def __init__(self, accept: bool, world: World) -> None:
        self._accept = accept
        self._world = world

    def __call__(self, file: Path, text: str) -> None:
        """Fail unless `file` holds exactly `text`."""
        before = file.read_text() if file.exists() else ""
        if text == before:
            return
        if self._accept:
            with self._world.allowed():
                file.write_text(text)
            return
        pytest.fail(changes(file, before, text), pytrace=False)


def changes(file: Path, before: str, after: str) -> str:
    """Each changed line, and what to do about it."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "expected", "now", n=0, lineterm="")
    return "\n".join(
        [
            f"{file.relative_to(GOLDEN.parents[2])} is not what it says now:",
            *(line for line in lines if not line.startswith("@@")),
            "If that is how it should be, accept it with",
            "    pytest tests/unit --accept",
            "and read `git diff` before you commit it.",
        ]
    )

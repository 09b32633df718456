"""Whole texts that are kept beside the tests, compared line by line.

A change shows as the lines that changed, with the command that accepts them; the diff of
the golden file then goes into the same commit, where a reviewer reads what users will see.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


class Expected:
    def __init__(self, accept: bool, writing: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        self._accept = accept
        self._writing = writing

    def __call__(self, file: Path, text: str) -> None:
        """Fail unless `file` holds exactly `text`."""
        before = file.read_text() if file.exists() else ""
        if text == before:
            return
        if self._accept:
            with self._writing():
                file.write_text(text)
            return
        pytest.fail(changes(file, before, text), pytrace=False)


def changes(file: Path, before: str, after: str) -> str:
    """Each changed line, and what to do about it."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "expected", "now", n=0, lineterm="")
    place = file.relative_to(GOLDEN.parents[2])
    return "\n".join(
        [
            f"{place} is not what it says now:",
            *(line for line in lines if not line.startswith("@@")),
            "If that is how it should be, accept it with",
            f"    pytest {Path(*place.parts[:2])} --accept",
            "and read `git diff` before you commit it.",
        ]
    )

"""Whole texts that are kept beside the tests, compared line by line. A change shows as the lines that changed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

import pytest

from mnrun.errors import LaunchError

GOLDEN = Path(__file__).parent / "golden"
MESSAGES = Path(__file__).with_name("messages.md")
HEAD = """# Messages of errors

Unit tests name the class or the code of an error. This file has the texts, and `pytest tests/unit --accept` writes it.
"""


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
    """Return each changed line, and what to do about it."""
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


class Refused(Protocol):
    """`with refused(KIND):` expects an error of this class with the code and the text in messages.md."""

    def __call__(self, kind: type[LaunchError]) -> AbstractContextManager[None]: ...


class Says(Protocol):
    """`says(TEXT)` expects a text for people, which is in messages.md."""

    def __call__(self, text: object) -> None: ...


class Messages:
    """The accepted texts that a test expects, by the test's id."""

    def __init__(self, accept: bool) -> None:
        self.accept = accept
        parts = MESSAGES.read_text().split("\n## ")[1:] if MESSAGES.exists() else []
        self._known = {name: text.strip() for name, _, text in (part.partition("\n") for part in parts)}
        self._heard: dict[str, list[str]] = {}

    def hear(self, test: str, text: str, place: str) -> None:
        """Fail unless this is the test's next accepted text."""
        lines = self._heard.setdefault(test, [])
        text = text.strip().replace(place, "TMP").replace(f"{GOLDEN.parents[2]}/", "")
        lines.append(text.replace("\n", "\n    "))
        if not self.accept and not f"{self._known.get(test, '')}\n".startswith("\n".join([*lines, ""])):
            pytest.fail(changes(MESSAGES, self._known.get(test, ""), "\n".join(lines)), pytrace=False)

    def write(self, tests: set[str], narrowed: bool = False) -> str:
        """Write what was heard, and keep what is known of tests that are there and were not run. Return why nothing was
        written: a choice of tests (-k) that `narrowed` the run may have left out cases of a test."""
        ran = {test.partition("[")[0] for test in tests}
        unseen = sorted(name for name in self._known if name.partition("[")[0] in ran and name not in tests)
        if narrowed and unseen:
            return f"{MESSAGES.name} was not written: this run has left out {unseen[0]}; run --accept without -k"
        files = [(path.name, path.read_text()) for path in MESSAGES.parent.rglob("test_*.py")]
        there = {f"{name}::{test}" for name, text in files for test in re.findall(r"def (test_\w+)", text)}
        there -= ran
        kept = {name: text for name, text in self._known.items() if name in tests or name.partition("[")[0] in there}
        texts = {**kept, **{test: "\n".join(lines) for test, lines in self._heard.items()}}
        MESSAGES.write_text("".join([HEAD, *(f"\n## {test}\n{text}\n" for test, text in sorted(texts.items()))]))
        return ""

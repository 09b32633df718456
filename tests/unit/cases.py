"""Tables of cases beside the tests, as accepted texts: test_layout.py has its own in layout.md.

A section is of one test. Each of its lines is a case, `INPUT | INPUT -> ANSWER`. `--accept` writes the answers anew.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mnrun.errors import LaunchError

from .texts import Expected

BETWEEN = re.compile(r"(?:^|(?<= ))\|(?= |$)")


class Cases:
    """Asks about each case of a test, and fails unless the answers are those that stand there."""

    def __init__(self, module: Path, test: str, expected: Expected) -> None:
        self._file = module.with_name(f"{module.stem.removeprefix('test_')}.md")
        self._test, self._expected = test, expected

    def __call__(self, ask: Callable[..., object]) -> None:
        text = self._file.read_text(encoding="utf-8")
        section = re.search(rf"^## {self._test}\n\n((?:.+\n)+)", text, re.MULTILINE)
        assert section, f"{self._file} has no cases of {self._test}"
        inputs = [line.partition("->")[0].rstrip() for line in section[1].splitlines()]
        lines = [f"{case} -> {answer(ask, BETWEEN.split(case))}".strip() for case in inputs]
        before, after = text[: section.start(1)], text[section.end(1) :]
        self._expected(self._file, "".join([before, *(f"{line}\n" for line in lines), after]))


def answer(ask: Callable[..., object], inputs: list[str]) -> str:
    """Return what came of it in a line: values, or the error with its class."""
    try:
        found = ask(*(text.strip() for text in inputs))
    except LaunchError as wrong:
        found = f"{type(wrong).__name__}: {wrong}"
    said = " | ".join(map(str, found)) if type(found) is tuple else str(found)
    return said.replace("\n", "\\n")


def given(text: str) -> dict[str, Any]:
    """Return the options of a case: `nodes=2 force bind=/a bind=/b`."""
    found: dict[str, Any] = {}
    for name, equals, value in (word.partition("=") for word in shlex.split(text)):
        if name in found:
            before = found[name] if isinstance(found[name], tuple) else (found[name],)
            found[name] = (*before, value)
        else:
            found[name] = value if equals else True
    return found

"""Keep the results of a suite in docs/reliability/NAME.json, and write its part of docs/reliability.md from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal.model import RUN
from rehearsal.shell import locked

DOCS = Path(__file__).resolve().parents[1] / "docs"
Results = Mapping[str, Mapping[str, Any]]  # case -> its last result


@dataclass(frozen=True)
class Book:
    """The results of a suite. `section` writes the text between the suite's marks in the page."""

    name: str
    section: Callable[[Results], str]
    docs: Path = DOCS

    def keep(self, case: str, result: Mapping[str, Any], cases: Sequence[str]) -> None:
        """Put the result of a case in the place of its last one, and write the page anew. `cases` are all there are."""
        file, page = self.docs / f"reliability/{self.name}.json", self.docs / "reliability.md"
        with locked(RUN / f".{self.name}.lock"):
            before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
            known = merged(before, {case: result}, cases)
            lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(one)}" for name, one in known.items())
            file.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
            text = page.read_text(encoding="utf-8")
            page.write_text(between(text, *self.marks, self.section(known)), encoding="utf-8")

    @property
    def marks(self) -> tuple[str, str]:
        return f"<!-- scripts/test --full {self.name} writes this -->", f"<!-- up to here: {self.name} -->"


def merged(before: Results, now: Results, cases: Sequence[str]) -> Results:
    """Return the last result of each case, in the order of the cases. One that is no case any more goes."""
    results = {**before, **now}
    return {name: results[name] for name in cases if name in results}


def between(page: str, begin: str, end: str, text: str) -> str:
    """Return the page with this text between two marks."""
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"

"""The nouns: an entry of the table, and the diagnosis that it gives for a line of output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from mnrun.record import Record


class Diagnosis(Record):
    """The cause of a failure in one sentence, its remedy, and where docs/troubleshooting.md has both. Programs know it
    by its name, which never changes."""

    name: str
    cause: str
    remedy: str
    anchor: str

    def __str__(self) -> str:
        return f"{self.cause}; {self.remedy}"


@dataclass(frozen=True)
class Entry:
    """A message, by a regular expression that is searched for in each line.

    `cause` and `remedy` may name the groups of `pattern`: {library}. `codes` are the exit codes that the message
    explains, or empty for all. A shell that goes on after a missing command ends with another code than 127.
    A `consequence` follows from a failure elsewhere. It counts only where the output names no cause.
    `bare` has the cause and the remedy of a program that runs without a container, if they are others.
    """

    name: str
    anchor: str
    pattern: str
    cause: str
    remedy: str
    codes: tuple[int, ...] = ()
    consequence: bool = False
    bare: tuple[str, str] | None = None

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def read(self, line: str, contained: bool = True) -> Diagnosis | None:
        """Return the diagnosis for a line of a program, in a container or not, or None if it is not this message."""
        found = self.regex.search(line)
        if found is None:
            return None
        groups = {name: text or "" for name, text in found.groupdict().items()}
        cause, remedy = (self.cause, self.remedy) if contained or self.bare is None else self.bare
        return Diagnosis(self.name, cause.format(**groups), remedy.format(**groups), self.anchor)

    def explains(self, code: int | None) -> bool:
        """Return whether a job that ended with `code` may have ended because of this message."""
        return not self.codes or code in self.codes

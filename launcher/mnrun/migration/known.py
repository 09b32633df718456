"""What a script tells of itself: values of its variables, its options for the scheduler, its lists of nodes. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress

from mnrun.migration import containers, starters
from mnrun.migration.shell import EXPANSION, VARIABLE, Command, Script, Word
from mnrun.schedulers import KNOWN

STARTERS = (*starters.PROGRAMS, *(one.STARTER for one in KNOWN.values() if one.STARTER))


class Known:
    """What is known of a script. `ranks` and `lists` are patterns of all schedulers (vocabulary.Foreign)."""

    def __init__(self, script: Script) -> None:
        self.script = script
        foreign = {name: scheduler.FOREIGN for name, scheduler in KNOWN.items()}
        self.marks = {name: one.directive for name, one in foreign.items() if one.directive}
        self.ranks = "|".join(filter(None, (one.ranks for one in foreign.values())))
        self.lists = "|".join(filter(None, (one.lists for one in foreign.values())))
        self.directives = {name: list(_directives(script.text, mark)) for name, mark in self.marks.items()}
        self.values = dict(self._constants())
        self.used: set[str] = set()  # variables that `expanded` has replaced

    def _constants(self) -> Iterator[tuple[str, str]]:
        """Yield the variables that the script sets once, outside of conditions, with their values as they stand."""
        for command in self.script.commands:
            for name, value in command.assigned.items():
                once = len(re.findall(rf"(?<![\w$]){name}\+?=|\b(?:for|read)\s+{name}\b", self.script.text)) == 1
                if once and not command.depth and value and "(" not in value and "`" not in value:
                    yield name, value

    def text(self, text: str, depth: int = 5) -> str:
        """Return a text with the values of its variables, as far as the script sets them once."""
        for _ in range(depth):
            text = EXPANSION.sub(self._value, text)
        return text

    def _value(self, found: re.Match[str]) -> str:
        raw, _ = self.script.expansions[ord(found[0]) - 0xE000]
        name = VARIABLE.fullmatch(raw)
        value = self.values.get(name[1] or name[2], "") if name else ""
        own = re.fullmatch(r'"?\$\{(\w+):-([^$}]*)\}"?', value)  # NAME=${NAME:-usual}
        return self.script.read(own[2] if own else value) if value else found[0]

    def expanded(self, words: Sequence[str]) -> list[str]:
        """Return words with variables replaced that hold options or commands, as the shell would split them."""
        found: list[str] = []
        for word in words:
            name = VARIABLE.fullmatch(word.raw) if isinstance(word, Word) else None
            raw = self.values.get(name[1] or name[2], "") if name else ""
            inner = (
                raw[1:-1] if re.fullmatch(r'"(?:[^"\\]|\\\n)*"', raw) else "" if re.search("[\"'\\\\]", raw) else raw
            )
            first = inner.split()[:1]
            if name and first and (first[0].startswith("-") or first[0] in (*containers.TOOLS, *STARTERS)):
                self.used.add(name[1] or name[2])
                found += self.expanded([self.script.word_of(part) for part in inner.split() if part != "\\"])
            else:
                found.append(word)
        return found

    def is_list_of_nodes(self, value: str) -> bool:
        """Return whether a value is a list of the job's nodes, or a file with such a list."""
        texts = (self.script.raw(value), self.script.raw(self.text(value)))
        return any(re.search(self.lists, text) for text in texts) or any(
            one.redirections and one.redirections[-1].raw.lstrip(">| ") in texts and self._tells_nodes(one)
            for one in self.script.commands
        )

    def _tells_nodes(self, command: Command) -> bool:
        loops = [one.begin for one in self.script.commands if one.words[:1] == ["for"] and one.begin < command.begin]
        begin = loops[-1] if command.words == ["done"] and loops else command.begin
        text = self.script.text[begin : command.end]
        return bool(re.search(self.lists, text)) or any(map(self.lists_nodes, re.findall(r"\$\{?(\w+)", text)))

    def lists_nodes(self, name: str, depth: int = 5) -> bool:
        """Return whether a variable has nodes of the job, or one of them."""
        values = [c.assigned[name] for c in self.script.commands if name in c.assigned]
        return any(
            re.search(self.lists, value)
            or (depth and any(self.lists_nodes(inner, depth - 1) for inner in re.findall(r"\$\{?(\w+)", value)))
            for value in values
        )


def _directives(text: str, mark: str) -> Iterator[str]:
    """Yield the words of a script's lines with options for a scheduler."""
    for line in text.splitlines() if mark else ():
        if re.match(rf"{re.escape(mark)}\s", line):
            with suppress(ValueError):  # a quote that is not closed
                yield from shlex.split(line[len(mark) :], comments=True)

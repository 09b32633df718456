"""Write a batch script anew: mnrun in place of what starts ranks and containers. Pure.

A command that is not understood stays as it was, and a remark says so. A line goes only if nothing needs it any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mnrun import environment
from mnrun.config.options import BY_FLAG
from mnrun.errors import LaunchError, UsageError
from mnrun.migration import containers, needless, waiting
from mnrun.migration.known import STARTERS, Known
from mnrun.migration.lines import Line, Lines
from mnrun.migration.needless import Edit
from mnrun.migration.shell import Command, Script, Word, blanked
from mnrun.record import Record

_WIDTH = 100
_SAYING = ("echo", "printf", "module", "ml")  # these may name a program, and start none
_BESIDE = "steps beside each other share the job's nodes: give each its own by -w NODES"
_UNKNOWN = "its container is started in a way that is not understood"
_WHOLE = "the whole script would run in a container: use mnrun shim"


class Remark(Record):
    line: int
    text: str
    stays: bool = False  # whether the line stays as it was, and starts what mnrun should start


class Step(Record):
    """A command that became mnrun's."""

    line: int
    options: tuple[str, ...]
    command: tuple[str, ...]


class Rewriting:
    """A script, and its new `text`. `gone` are the parts that are left out, by their lines."""

    def __init__(self, text: str) -> None:
        """Raises UsageError if the shell's lines cannot be read, or if nothing in them starts a container."""
        self.script = Script(text)
        self.known = Known(self.script)
        self.steps: list[Step] = []
        self.remarks: list[Remark] = []
        self._there = waiting.find(self.script, self.known.text)
        self._staying: list[tuple[int, int]] = []
        made = [*self._commands(), *self._waiting()]
        self.remarks += self._lost_variables()
        self._look_for_more(made)
        if not made and not self.remarks:
            raise UsageError(
                "it starts no container", "to run it in an image: mnrun submit --image IMAGE --script FILE"
            )
        if self._starts_no_more(made):
            made += needless.edits(self.script, self.known, made)
        made.sort()
        self.edits = made
        self.gone = [(self.script.line(edit.begin), edit.gone) for edit in made if edit.gone]
        for edit in reversed(made):
            text = text[: edit.begin] + edit.text + text[edit.end :]
        self.text = text

    def _commands(self) -> Iterator[Edit]:
        """Yield the edits of the commands that become mnrun's."""
        lines = Lines(self.script, self.known, self._there)
        handled = {place for one in self._there.values() for place in one.places}
        for place, command in enumerate(self.script.commands):
            words = self.known.expanded(command.words) if place not in handled else []
            number = self.script.line(command.begin)
            try:
                line = lines.read(words, command) if words else None
            except LaunchError as error:
                self.remarks.append(Remark(number, str(error), True))
                self._staying.append((command.begin, command.end))
                continue
            if line is not None:
                notes = (*line.notes, *((_BESIDE,) if command.after == "&" else ()))
                self.remarks += [Remark(number, note) for note in notes]
                self.steps.append(Step(number, line.options, line.command))
                begun = command.words[0] == "exec" or self._is_last(place)
                yield Edit(command.words[0].begin, command.end, ("exec " if begun else "") + self._text(line, command))

    def _waiting(self) -> Iterator[Edit]:
        """Yield the edits by which containers go that only wait, and their loops."""
        script = self.script
        for first, last in waiting.needless(script, self._there):
            begin, end = script.text.rfind("\n", 0, first.begin) + 1, script.end_of_line(last.end) + 1
            gone = " ".join(script.text[begin:end].split())
            yield Edit(begin, end, gone=gone if len(gone) < _WIDTH else f"{gone[:_WIDTH]} …")

    def _is_last(self, place: int) -> bool:
        """Return whether the script ends with this command, and nothing waits for its end."""
        command, text = self.script.commands[place], self.script.text
        alone = place == len(self.script.commands) - 1 and not command.lead and not command.depth
        first = command.before in ("\n", ";") and command.after == "\n"
        return alone and first and not re.search(r"^\s*trap\s", text, re.MULTILINE)

    def _text(self, line: Line, command: Command) -> str:
        """Return mnrun's line. The program's words keep their lines."""
        text, width = "mnrun", 5
        for part in (*map(self.script.typed, grouped(line.options)), "--"):
            wide = width + len(part) > _WIDTH
            text += f" \\\n    {part}" if wide else f" {part}"
            width = len(part) + 4 if wide else width + 1 + len(part)
        pieces, place = list[tuple[int, str]](), 0
        for word in line.command:  # one of a variable stands behind the one before
            place = word.begin if isinstance(word, Word) and word.begin >= 0 else place
            pieces.append((place, word))
        first = next((place for place, _ in pieces if place), 0)
        pieces += [(max(word.begin, first), word) for word in command.redirections]
        for _, piece in sorted(pieces, key=lambda piece: piece[0]):
            text += self._between(piece, command) + self.script.raw(piece)
        return text

    def _between(self, piece: str, command: Command) -> str:
        """Return the blanks in front of a word, as they stand in the script."""
        if not isinstance(piece, Word) or piece.begin < 0:
            return " "
        found = re.search(r"(?:[ \t]|\\\n)+$", self.script.text[command.begin : piece.begin])
        return found[0] if found else " "

    def _lost_variables(self) -> Iterator[Remark]:
        """Yield a remark on each exported variable that names the node's directories, and so does not reach ranks."""
        host = [rule.pattern for rule in environment.RULES if rule.contained]
        for command in self.script.commands if self.steps else ():
            for name in command.assigned if command.words[:1] == ["export"] else ():
                if environment.matches(name, host):
                    text = f"the ranks do not get {name}, which names directories of the node; -x {name} hands it on"
                    yield Remark(self.script.line(command.begin), text)

    def _look_for_more(self, made: Sequence[Edit]) -> None:
        """Remark on each line that starts a container in another way: in quotes, a document, or a plug-in's option."""
        script, marks = self.script, tuple(self.known.marks.values())
        said = [(one.begin, one.end) for one in script.commands if one.words and one.words[0] in _SAYING]
        changed = [(edit.begin, edit.end) for edit in made]
        rest = blanked(script.text, [*changed, *self._staying, *said, *script.comments])
        done = [one for one in script.commands if one.assigned and {*one.assigned} <= self.known.used]
        done = [one for one in done if not re.search(rf"\$\{{?({'|'.join(one.assigned)})\b", rest)]
        rest = blanked(rest, [(one.begin, one.end) for one in done])
        for number, line in enumerate(rest.splitlines(), 1):
            if re.search(containers.STARTS, line):
                self.remarks.append(Remark(number, _UNKNOWN, True))
        for number, line in enumerate(script.text.splitlines(), 1):
            if "--container-" in line and line.startswith(marks):
                self.remarks.append(Remark(number, _WHOLE, True))
        self.remarks.sort(key=lambda remark: remark.line)

    def _starts_no_more(self, made: Sequence[Edit]) -> bool:
        """Return whether nothing but mnrun starts ranks now, so that nothing else needs what mnrun sets."""
        others = [
            one
            for one in self.script.commands
            if one.words and not any(edit.begin <= one.words[0].begin < edit.end for edit in made)
        ]
        programs = (*STARTERS, "torchrun", "python", "python3")
        left = any(one.words[0].rpartition("/")[2] in programs for one in others)
        return not left and not any(remark.stays for remark in self.remarks)


def grouped(options: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield each option with its value."""
    place = 0
    while place < len(options):
        option = BY_FLAG.get(options[place])
        taken = 2 if option is not None and option.takes_value else 1
        yield tuple(options[place : place + taken])
        place += taken

"""Find the commands of a shell script, with their words as they stand, and write words again. Runs and expands nothing.

In a word's text, quotes are gone, and a character of Unicode's private use stands for each expansion.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mnrun.errors import UsageError

_PRIVATE = 0xE000
EXPANSION = re.compile("[\ue000-\uf8ff]")
KEYWORDS = frozenset(["if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"])
_OPENING, _CLOSING = (
    frozenset(["if", "for", "while", "until", "case", "select", "{"]),
    frozenset(["fi", "done", "esac", "}"]),
)
_OPERATOR = re.compile(r"&&|\|\|?&?|;;&?|;&?|&(?!>)|[()\n]")
_REDIRECTION = re.compile(r"(\d+|\{\w+\})?(<<<|<<-?|<>|<&|>&|>>|>\||<|>)|&>>?")
_PARAMETER = re.compile(r"\$(\w+|[@*#?$!-])")
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::-[^}]*)?\})")
NAME = re.compile(r"[A-Za-z_]\w*")


class Word(str):
    """The text of a word. `raw` is the word as it stands in the script, from `begin`."""

    raw: str
    begin: int

    @classmethod
    def of(cls, text: str, raw: str, begin: int) -> Word:
        word = cls(text)
        word.raw, word.begin = raw, begin
        return word

    @property
    def end(self) -> int:
        return self.begin + len(self.raw)


@dataclass
class Command:
    """A simple command: its keywords and assignments, its words, and its redirections."""

    begin: int  # a place in the text
    end: int = 0
    lead: list[Word] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    redirections: list[Word] = field(default_factory=list)
    before: str = "\n"  # the operators around it
    after: str = "\n"
    depth: int = 0  # of loops, conditions and groups around it
    reads: bool = False  # whether a redirection gives it an input
    odd: bool = False  # whether it has a part that is not among its words

    @property
    def assigned(self) -> dict[str, str]:
        """Return the variables of a line that only sets or exports some, with their values as they stand."""
        if self.redirections or (self.words and self.words[0] not in ("export", "declare", "readonly")):
            return {}
        words = [word.raw for word in (*self.lead, *self.words[1:]) if not word.startswith("-")]
        pairs = [word.partition("=") for word in words]
        return {name: value for name, _, value in pairs} if all(NAME.fullmatch(name) for name, _, _ in pairs) else {}


class Script:
    """The commands of a script. Raises UsageError where a quote is not closed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.expansions: list[tuple[str, bool]] = []  # as they stand, and whether in quotes
        self.documents: list[tuple[int, int]] = []  # the places of here-documents
        self.comments: list[tuple[int, int]] = []
        self._awaited: list[tuple[str, bool]] = []
        self.commands = list(self._commands())

    def line(self, place: int) -> int:
        return self.text.count("\n", 0, place) + 1

    def _commands(self) -> Iterator[Command]:
        place, depth, groups, before, command = 0, 0, 0, "\n", None
        while place < len(self.text):
            if blank := re.compile(r"(?:[ \t\r]|\\\n)+").match(self.text, place):
                place = blank.end()
            elif self.text[place] == "#":
                end = self.end_of_line(place)
                self.comments.append((place, end))
                place = end
            elif found := _REDIRECTION.match(self.text, place):
                command = command or Command(place, before=before, depth=depth + groups)
                place = self._redirect(command, found, place)
            elif found := _OPERATOR.match(self.text, place):
                if command:
                    command.after = found[0]
                    yield command
                groups = max(0, groups + {"(": 1, ")": -1}.get(found[0], 0))  # a pattern of case ends with ), too
                before, command, place = found[0], None, found.end()
                if before == "\n":
                    place = self._skip_documents(place)
            else:
                end = self._end_of_word(place)
                word = self.word(place, end)
                first = command is None or not command.words
                command = command or Command(place, before=before, depth=depth + groups)
                depth += (first and word in _OPENING) - (first and word in _CLOSING)
                self._add(command, word)
                place = end
        if command:
            yield command

    def _add(self, command: Command, word: Word) -> None:
        led = not command.words and (word.raw in KEYWORDS or re.match(r"[A-Za-z_]\w*\+?=", word.raw))
        if led or (command.lead[-1:] == ["time"] and word == "-p" and not command.words):
            command.lead.append(word)
        else:
            command.words.append(word)
        command.end = word.end

    def _redirect(self, command: Command, found: re.Match[str], place: int) -> int:
        """Add a redirection to a command, and return its end."""
        rest = re.compile(r"[ \t]*").match(self.text, found.end())
        begin = rest.end() if rest else found.end()
        if self.text[begin : begin + 1] in ("(", ""):
            command.odd = True
            return begin
        end = self._end_of_word(begin)
        command.redirections.append(Word.of("", self.text[place:end], place))
        command.reads |= "<" in found[0]
        if found[0].endswith(("<<", "<<-")) and not found[0].endswith("<<<"):
            self._awaited.append((self.read(self.text[begin:end]), found[0].endswith("-")))
        command.end = end
        return end

    def word(self, begin: int, end: int) -> Word:
        raw = self.text[begin:end]
        return Word.of(self.read(raw), raw, begin)

    def word_of(self, raw: str) -> Word:
        """Return a word that stands in a variable, or in another script."""
        return Word.of(self.read(raw), raw, -1)

    def _skip_documents(self, place: int) -> int:
        for mark, tabs in self._awaited:
            begin = place
            while place < len(self.text):
                end = self.end_of_line(place)
                line, place = self.text[place:end], end + 1
                if (line.lstrip("\t") if tabs else line) == mark:
                    break
            self.documents.append((begin, min(place, len(self.text))))
        self._awaited = []
        return place

    def end_of_line(self, place: int) -> int:
        end = self.text.find("\n", place)
        return len(self.text) if end < 0 else end

    def _end_of_word(self, place: int) -> int:
        begin, text = place, self.text
        while place < len(text):
            if text[place] == "(" and text[begin:place].endswith("="):  # an array
                place = self._closed(place + 1, ")", begin)
            elif text[place] in " \t\r\n;&|()<>":
                break
            else:
                place = self._part(place)
        return max(place, begin + 1)

    def _part(self, place: int) -> int:
        """Return the end of the quoted text, the expansion or the character at a place."""
        text = self.text
        if text[place] == "\\":
            return min(place + 2, len(text))
        if text[place] == "'":
            end = text.find("'", place + 1)
            if end < 0:
                raise self._open(place)
            return end + 1
        if text[place] == '"':
            return self._closed(place + 1, '"', place)
        if text[place] == "`":
            end = text.find("`", place + 1)
            if end < 0:
                raise self._open(place)
            return end + 1
        if text.startswith("$'", place):
            found = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL).match(text, place)
            if not found:
                raise self._open(place)
            return found.end()
        for opening, closing in (("${", "}"), ("$(", ")")):
            if text.startswith(opening, place):
                return self._closed(place + 2, closing, place)
        found = _PARAMETER.match(text, place)
        return found.end() if found else place + 1

    def _closed(self, place: int, mark: str, begin: int) -> int:
        """Return the place behind the mark that closes a quoted text or an expansion."""
        text = self.text
        while place < len(text):
            if text[place] == mark:
                return place + 1
            if text[place] == "(" and mark == ")":
                place = self._closed(place + 1, ")", place)
            elif text[place] == "'" and mark == '"':
                place += 1
            elif text[place] == "#" and mark == ")" and text[place - 1] in " \t\n":
                place = self.end_of_line(place)
            else:
                place = self._part(place)
        raise self._open(begin)

    def _open(self, place: int) -> UsageError:
        what = f"line {self.line(place)}: {self.text[place : place + 1]} is not closed"
        return UsageError(what, "correct the script; bash -n FILE shows such faults")

    def read(self, raw: str) -> str:
        """Return the text of a word: without quotes, and with a character for each expansion."""
        inner, found, place, quoted = Reader(raw), [], 0, False
        while place < len(raw):
            char = raw[place]
            if char == '"':
                quoted, place = not quoted, place + 1
                continue
            end = place + 1 if quoted and char == "'" else inner.part(place)
            piece = raw[place:end]
            if char == "'" and not quoted:
                found.append(piece[1:-1])
            elif char == "\\":
                kept = quoted and piece[1:] not in tuple('"\\$`\n')
                found.append("" if piece[1:] == "\n" else piece if kept else piece[1:])
            elif len(piece) > 1 or (not quoted and char in "*?[{}~" and not (char == "~" and place)):
                found.append(self.stand_in(piece, quoted))
            else:
                found.append(piece)
            place = end
        return "".join(found)

    def stand_in(self, raw: str, quoted: bool) -> str:
        """Return the character that stands for an expansion."""
        if len(self.expansions) > 0x18FF:
            raise UsageError("the script has more than 6399 expansions", "migrate it in parts")
        self.expansions.append((raw, quoted))
        return chr(_PRIVATE + len(self.expansions) - 1)

    def raw(self, text: str) -> str:
        """Return a text as a word of the script."""
        if isinstance(text, Word):
            return text.raw
        parts = [part for part in re.split("([\ue000-\uf8ff])", text) if part]
        known = [self.expansions[ord(part) - _PRIVATE] if EXPANSION.match(part) else None for part in parts]
        if any(one and one[1] for one in known) and all(one is None or one[1] for one in known):
            inner = (one[0] if one else re.sub(r'(["\\$`])', r"\\\1", part) for one, part in zip(known, parts))
            return f'"{"".join(inner)}"'
        quoted = (f'"{one[0]}"' if one and one[1] else one[0] if one else None for one in known)
        return "".join(one or shlex.quote(part) for one, part in zip(quoted, parts)) or "''"

    def typed(self, words: Sequence[str]) -> str:
        return " ".join(map(self.raw, words))


class Reader(Script):
    """One word, by itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    def part(self, place: int) -> int:
        return self._part(place)


def blanked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text with blanks in place of these parts, and its lines."""
    for begin, end in spans:
        text = text[:begin] + re.sub(r"[^\n]", " ", text[begin:end]) + text[end:]
    return text

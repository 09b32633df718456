"""`mnrun explain`: an exit code, a reason, or a message, by the pages on exit codes and troubleshooting."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache

import click

from mnrun.cli import complete
from mnrun.cli.words.pages import Section, sections, text, topics
from mnrun.errors import BUG, UsageError

CODES, MESSAGES = "reference/exit-codes.md", "troubleshooting.md"
SIGNALLED = 128  # codes above are those of signals
OWN = range(BUG, 126)  # codes of mnrun's own
_WORD = re.compile(r"[a-z0-9]+")
_PLACEHOLDER = re.compile(r"\b[A-Z]{1,4}\b|\b(?!CUDA|NCCL|UCX|MPI)[A-Z]{5,}\b|…")
_ENOUGH = 0.6  # of the weight of the words that are looked for
_NEARLY = 0.9  # of the weight of a heading's words
_VALUE = 12  # words of a message, at most, for a placeholder of a heading
_EXACT = 1000.0  # the score of a section whose heading was asked for
_MANY = 8  # further messages that are named


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="CODE|WORDS…", shell_complete=complete.explained)
def explain(words: tuple[str, ...]) -> None:
    """Explain an exit code (121), a reason of `mnrun status --json` (no-answer), or a message, by some of its words."""
    from mnrun.cli.help import show

    asked = " ".join(words)
    found = of_code(int(asked)) if re.fullmatch(r"\d{1,3}", asked) else of_reason(asked) or of_message(asked)
    if not found:
        raise UsageError(f"no page explains {asked!r}", "mnrun help troubleshooting has all messages")
    show(found, MESSAGES, topics())


def of_code(code: int) -> str:
    """Return what the pages tell of an exit code, or "" for one that none has."""
    rows = [row for row in _rows(CODES) if _codes(row[0], code)]
    if not rows:
        own = (
            f"# Exit code {code}\n\n- It is your program's own, and `mnrun why JOB` shows which rank has ended with it."
        )
        return own if code < BUG else ""
    named = re.compile(rf"(?<![\w#]){code}(?!\w)")
    lines = [f"# Exit code {code}", ""]
    lines += [f"- {'. '.join(cell[:1].upper() + cell[1:] for cell in row[1:] if cell)}." for row in rows]
    lines += [f"- Signal {code - SIGNALLED} is {name}." for name in _signals(code - SIGNALLED)]
    paragraphs = re.split(r"\n\n+", text(CODES))
    lines += [f"\n{part}" for part in paragraphs if named.search(part) and not part.startswith(("|", "```", "#"))]
    reasons = [row[0] for row in _rows(CODES) if len(row) == 3 and row[1] == str(code) and row[0].startswith("`")]
    lines += [f"\nIts `reason` in `mnrun status --json`: {', '.join(reasons)}."] if reasons else []
    messages = [f"- {part.heading}" for part in sections(MESSAGES) if named.search(f"{part.body} {part.chapter}")]
    lines += ["\nMessages with it, for `mnrun explain WORDS`:\n", *messages] if messages else []
    return "\n".join(lines)


def _signals(number: int) -> list[str]:
    import signal

    return [one.name for one in signal.Signals if one == number]


def known() -> dict[str, str]:
    """Return the codes and the reasons of the tables, with their meanings."""
    cells = [(row[0], row[-1] if row[0].startswith("`") else row[1]) for row in _rows(CODES)]
    words = [(word, meaning) for cell, meaning in cells for word in re.split(r",\s*", cell)]
    return {word.strip("`"): meaning for word, meaning in words if re.fullmatch(r"\d+|`[\w-]+`", word)}


def of_reason(word: str) -> str:
    """Return what the pages tell of a reason: a word in their tables, or a code of a cause."""
    quoted = f"`{word}`"
    for part in sections(MESSAGES):
        if re.search(rf"^Codes?:.*{re.escape(quoted)}", part.body, re.MULTILINE):
            return _shown(part)
    return next(
        (f"# {word}\n\n- Exit code {row[1]}: {row[2]}." for row in _rows(CODES) if row[0] == quoted and len(row) == 3),
        "",
    )


def of_message(message: str) -> str:
    """Return the section that has these words, and the names of those that are next. "" if none has them."""
    found = ranked(message)
    if not found:
        return ""
    others = [f"- {part.heading}" for part in found[1:_MANY]]
    also = ["", "Other messages with these words:", "", *others] if others else []
    return "\n".join([_shown(found[0]), *also])


def _shown(part: Section) -> str:
    return f"# {part.heading}\n\n{part.body}"


def ranked(message: str) -> list[Section]:
    """Return the sections that have the words of a message, the best first."""
    asked = _words(message)
    parts, weights = _parts()
    scores = [(_score(asked, part, weights), part) for part in parts]
    best = max((score for score, _ in scores), default=0.0)
    return [part for score, part in sorted(scores, key=lambda pair: -pair[0]) if score > 0.4 * best] if best else []


def _score(asked: Sequence[str], part: Section, weights: Mapping[str, float]) -> float:
    """Return how well a section fits. Words of its heading count more, and most those in the same order. It is 0 if
    both its heading and the words that were asked for are mostly of something else."""

    def weight(words: Collection[str]) -> float:
        return sum(weights.get(word, 0.0) for word in words)

    if asked == _words(part.heading):
        return _EXACT
    heading, listing, body = _words(_PLACEHOLDER.sub(" ", part.heading)), _listing(part.body), _words(part.body)
    quoted = [heading, *listing]
    common = max((_common(asked, words) for words in quoted), key=weight, default=[])
    known = [word for word in set(asked) if word in weights]
    covers = weight({*known} & {*heading, *body}) / (weight(known) or 1.0)
    covered = max((weight({*words} & {*asked}) / weight({*words}) for words in quoted if words), default=0.0)
    unknown = len(set(asked)) - len(known)
    whole = covers >= _ENOUGH and unknown <= len(known) / 2
    if not whole and not (covered >= _ENOUGH and len(common) > 2):
        return 0.0
    return 3 * weight(common) + 2 * weight({*asked} & {*heading}) + weight({*asked} & {*body}) * 0.5 + 5 * covered


def _common(asked: Sequence[str], words: Sequence[str]) -> Sequence[str]:
    """Return the longest run of words that both have."""
    import difflib

    match = difflib.SequenceMatcher(None, asked, words, autojunk=False).find_longest_match(0, len(asked), 0, len(words))
    return asked[match.a : match.a + match.size]


@cache
def _parts() -> tuple[list[Section], dict[str, float]]:
    """Return all sections, and word -> its weight: a word that few sections have tells more."""
    parts = [*sections(MESSAGES), *sections(CODES)]
    count = Counter(word for part in parts for word in {*_words(part.heading), *_words(part.body)})
    return parts, {word: math.log(1 + len(parts) / number) for word, number in count.items()}


@cache
def _words(line: str) -> list[str]:
    return _WORD.findall(line.lower())


def _listing(body: str) -> list[list[str]]:
    """Return the words of each line that a section quotes."""
    blocks = re.findall(r"^```text\n(.*?)^```", body, re.MULTILINE | re.DOTALL)
    return [_words(line) for block in blocks for line in block.splitlines()]


def _rows(path: str) -> Iterator[list[str]]:
    """Yield the cells of the rows of a page's tables."""
    for line in text(path).splitlines():
        if line.startswith("| ") and not line.startswith("|--"):
            yield [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip("| "))]


def _codes(cell: str, code: int) -> bool:
    """Return whether the first cell of a row has this code: `129, 143`, or `128 + n`."""
    return str(code) in re.split(r",\s*", cell) or (cell.startswith("128 +") and SIGNALLED < code < SIGNALLED + 65)


def anchor(message: str, code: int) -> str:
    """Return the words for `mnrun explain` that lead from a message to its section, or the code of mnrun's own, or ""
    for other codes."""
    parts, weights = _parts()
    asked = _words(message)
    best = max(parts, key=lambda part: _fit(asked, part, weights))
    if _fit(asked, best, weights):
        pieces = [_words(piece) for piece in re.split(r"[^\w\s'-]", _PLACEHOLDER.sub(";", best.heading))]
        few = [
            piece[place : place + size]
            for size in (2, 3, 4)
            for piece in pieces
            for place in range(len(piece) - size + 1)
        ]
        for words in sorted(few, key=lambda words: (len(words), -sum(weights[word] for word in words))):
            if (found := ranked(" ".join(words))) and found[0] == best:
                return " ".join(words)
    return str(code) if code in OWN else ""


def _fit(asked: Sequence[str], part: Section, weights: Mapping[str, float]) -> float:
    """Return the weight of a heading's words if a message has nearly all of them, one after the other, else 0. Where
    the heading has a placeholder, the message has up to `_VALUE` words."""
    import difflib

    pieces = list(filter(None, map(_words, _PLACEHOLDER.split(part.heading))))
    heading = [word for piece in pieces for word in piece]
    matches = difflib.SequenceMatcher(None, asked, heading, autojunk=False).get_matching_blocks()[:-1]
    common = [word for match in matches for word in asked[match.a : match.a + match.size]]
    there, needed = (sum(weights[word] for word in words) for words in (common, heading))
    if len(common) < 3 or there < _NEARLY * needed:
        return 0.0
    span = matches[-1].a + matches[-1].size - matches[0].a
    return there if span <= len(heading) + _VALUE * (len(pieces) - 1) else 0.0

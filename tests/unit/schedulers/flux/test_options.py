"""A job in the options of flux batch."""

from __future__ import annotations

import shlex

from mnrun.planning.layout import lay_out
from mnrun.schedulers.flux import options
from unit.cases import Cases, given
from unit.samples import build


def lines(words: str) -> str:
    spec = build("./app", **{"nodes": "2", "ntasks_per_node": "2", **given(words)})
    return "; ".join(line.removeprefix("#flux: ") for line, _ in options.directives(spec, lay_out(spec, None)))


def test_lines_of_the_script(cases: Cases) -> None:
    cases(lines)


def test_lines_are_read_as_they_are_meant() -> None:
    """flux batch splits each line by shlex, with quotes and punctuation of its own (flux/job/directives.py, 0.88)."""
    found: list[str] = []
    for line in lines("constraint='a|b' nodelist=node[01-02] output='a b(c)#.out' export=NONE").split("; "):
        lexer = shlex.shlex(f"{line}  # it's a comment", posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.escapedquotes = True, "\"'"
        found += list(lexer)
    assert {"(a|b) and hosts:node[01-02]", "a b(c)#.out", "--env-remove=*"} <= set(found)

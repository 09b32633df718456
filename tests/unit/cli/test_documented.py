"""The lines of the documentation and the examples that call mnrun: it reads each of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from pytest_mock import MockerFixture

from mnrun.attach import meant
from mnrun.cli.main import main
from mnrun.errors import UsageError

ROOT = Path(__file__).resolve().parents[3]
PAGES = (*sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/*/README.md")), ROOT / "README.md")
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
CALL = re.compile(r"[$#] (?:salloc [^$]*?)?mnrun ")


def typed(page: Path) -> Iterator[tuple[str, list[str], str]]:
    """Yield each line that calls mnrun, the words of that call, and the line below it."""
    for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
        lines = [*block.replace("\\\n", " ").split("\n"), ""]
        for line, below in zip(lines, lines[1:]):
            call = CALL.match(line)
            if call:
                lexer = shlex.shlex(line[call.end() :], posix=True, punctuation_chars=";<>|&")
                lexer.whitespace_split = True
                words = [*lexer, ";"]
                end = next(place for place, word in enumerate(words) if word == "…" or not word.strip(";<>|&"))
                yield line, words[:end], below


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_line_is_read_or_refused_as_the_page_says(page: Path, mocker: MockerFixture) -> None:
    mocker.patch.object(click.Context, "invoke")  # the line is read, and its verb does not run
    mocker.patch.object(meant, "running", side_effect=lambda name, *rest: name)
    for line, words, below in typed(page):
        try:
            main.main(words, standalone_mode=False)
        except UsageError as error:
            assert below == f"mnrun: {error}", line
        except click.NoSuchOption:
            assert below.startswith("mnrun: there is no option "), line

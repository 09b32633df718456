"""The tables of other tools' words, and the help."""

from __future__ import annotations

import re

import click
import pytest

from mnrun.cli import main
from mnrun.cli.words import answers, help
from mnrun.config.options import BY_FLAG, BY_NAME, COMMON, OPTIONS
from mnrun.near import nearest
from mnrun.schedulers.slurm.foreign import FOREIGN
from unit.typed import Terminal

FLAGS = frozenset(BY_FLAG)
ANSWERS = {**answers.ANSWERS, **FOREIGN.answers}
FOREIGN_VERBS = {**answers.VERBS, **FOREIGN.verbs, **FOREIGN.commands}
# Options of single verbs, and of other programs, that answers name.
OTHERS = {
    "--help",
    "--version",
    "--wait",
    "--dry-run",
    "--images",
    "--cpu-bind",
    "--older",
    "--fakeroot",
    "--writable-tmpfs",
    "--task-prolog",
    "--unbuffered",
}
OTHERS |= {"--gmca", "--mca", "--pmixmca", "--prtemca", "--app", "--home", "--immediate", "--x11", "--max-restarts"}


def names(text: str) -> list[str]:
    """Return the options of a table without the sign of a value."""
    return [word.rstrip("=") for word in text.split()]


def test_an_option_that_is_passed_on_is_none_of_ours() -> None:
    """Its answer would never be seen."""
    texts = [*answers.PASSED.values(), FOREIGN.passed]
    assert [name for text in texts for name in names(text) if f"--{name}" in FLAGS or name in ANSWERS] == []
    assert [name for text in texts for name in names(text) if name.endswith("-")] == []  # a line must not split a name


def test_an_answer_names_options_that_exist() -> None:
    known = {*FLAGS, *OTHERS}
    for name, answer in {**ANSWERS, **FOREIGN_VERBS}.items():
        assert set(re.findall(r"(?<!\w)--[a-z][\w-]*", answer)) <= known, name


def test_an_answer_names_verbs_that_exist() -> None:
    """`mnrun status`, but no `mnrun state`."""
    texts = [*ANSWERS.values(), *FOREIGN_VERBS.values(), *answers.OF_VERBS.values()]
    named = {word for text in texts for word in re.findall(r"mnrun ([a-z][a-z-]+)\b(?! \w+s\b| it)", text)}
    prose = {"removes", "prints", "ends", "chooses", "sets", "knows", "finds", "forwards", "needs", "saves", "asks"}
    prose |= {"uses", "does", "job"}
    assert named - prose <= set(main.VERBS)


@pytest.mark.parametrize(("verb", "flag"), answers.OF_VERBS)
def test_an_option_that_a_verb_lacks_is_none_of_its_own(verb: str, flag: str) -> None:
    command = main.main.get_command(click.Context(main.main), verb)
    assert command is not None
    assert flag not in [word for option in command.params for word in option.opts]


def test_a_verb_of_another_tool_is_none_of_ours() -> None:
    """Its answer would never be seen."""
    assert sorted(set(FOREIGN_VERBS) & set(main.VERBS)) == []


@pytest.mark.parametrize(("letter", "name"), [*answers.LETTERS.items(), *FOREIGN.letters.items()])
def test_a_letter_of_another_tool_is_none_of_ours(letter: str, name: str) -> None:
    """And its long spelling has an answer."""
    assert letter not in FLAGS
    assert name in ANSWERS or name in names(FOREIGN.passed)


@pytest.mark.parametrize(
    ("word", "near"),
    [("sumbit", "submit"), ("rnu", "run"), ("ring", ""), ("go", ""), ("main", ""), ("date", ""), ("python", "")],
)
def test_nearest(word: str, near: str) -> None:
    assert nearest(word, main.VERBS) == near


def test_the_first_page_fits_a_terminal() -> None:
    """24 lines of 80 columns; with every verb, and options that exist."""
    lines = help.page().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert all(re.search(rf"[ :]{verb}( |$)", help.page(), re.MULTILINE) for verb in main.VERBS)
    assert len(help.FIRST) == 12
    assert set(help.FIRST) <= set(BY_NAME)


@pytest.mark.parametrize("verb", ["run", "plan", "submit", "shell"])
def test_the_help_of_a_verb_has_the_common_options(mnrun: Terminal, verb: str) -> None:
    short, every = mnrun(verb, "--help").out, mnrun(verb, "--help-all").out
    for option in OPTIONS:
        flags = rf"\n  (-.*, )?--{option.name.replace('_', '-')}(?![\w-])"
        assert bool(re.search(flags, short)) == (verb in option.verbs and option.name in COMMON), option.name
        assert bool(re.search(flags, every)) == (verb in option.verbs), option.name
    for section in {option.section for option in OPTIONS if verb in option.verbs}:
        assert f"\n{section}:\n" in short
        assert f"\n{section}:\n" in every
    rest = {option.name for option in OPTIONS if verb in option.verbs} - COMMON
    assert f"mnrun {verb} --help-all shows {len(rest)} more options.\n" in short
    assert "..." not in short.partition("\n")[2]
    assert "more options" not in every


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("shell", ("--script", "x.sh")),
        ("shell", ("--mode", "outside-in")),
        ("submit", ("--local", "--", "true")),
        ("submit", ("--hosts", "a", "--", "true")),
    ],
)
def test_the_help_of_a_verb_has_no_option_that_it_refuses(mnrun: Terminal, verb: str, words: tuple[str, ...]) -> None:
    assert mnrun(verb, "--runtime", "host", *words).code in (2, 122)
    assert f"  {words[0]} " not in mnrun(verb, "--help-all").out
    assert f"{words[0]} " in mnrun("plan", "--help-all").out
    assert ("COMMAND" in mnrun(verb, "--help").out) == (verb != "shell")

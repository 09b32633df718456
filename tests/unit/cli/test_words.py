"""The tables of other tools' words, and the help."""

from __future__ import annotations

import re

import click
import pytest

from mnrun.cli import main
from mnrun.cli.words import answers, help, options
from mnrun.cli.words.tools import TOOLS, Tool
from mnrun.config.options import BY_FLAG, BY_NAME, COMMON, OPTIONS
from mnrun.near import distance, nearest
from unit.typed import Launched, Terminal

FLAGS = frozenset(BY_FLAG)
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
}
OTHERS |= {"--gmca", "--mca", "--pmixmca", "--prtemca", "--app", "--home", "--immediate", "--x11", "--max-restarts"}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
@pytest.mark.parametrize("verb", ["run", "submit"])
def test_every_option_of_a_tool_has_its_answer(tool: Tool, verb: str) -> None:
    """One line that names the option and a tool, with the action to take; or the option is mnrun's own."""
    context = options.Context(verb, FLAGS)
    for name in sorted(tool.values | tool.flags):
        if f"--{name}" in FLAGS:
            continue
        error = options.error(f"--{name}", "", "", context)
        assert error.message.startswith((f"--{name} is an option of ", f"there is no option --{name}")), name
        assert re.match("use |leave it out: |write |give it to |build ", error.remedy), (name, error.remedy)
        assert "\n" not in str(error)


def test_an_answer_names_options_that_exist() -> None:
    """mnrun's own, or those that its line hands to another program."""
    known = {*FLAGS, *OTHERS}
    for name, answer in {**answers.ANSWERS, **answers.VERBS}.items():
        assert set(re.findall(r"(?<!\w)--[a-z][\w-]*", answer)) <= known, name


def test_an_answer_names_verbs_that_exist() -> None:
    """`mnrun status`, but no `mnrun state`."""
    texts = [*answers.ANSWERS.values(), *answers.VERBS.values(), *answers.OF_VERBS.values()]
    named = {word for text in texts for word in re.findall(r"mnrun ([a-z]+)\b(?! \w+s\b| it)", text)}
    prose = {"removes", "prints", "ends", "chooses", "sets", "knows", "finds", "forwards", "needs", "saves", "asks"}
    prose |= {"uses", "does", "job"}
    assert named - prose <= set(main.VERBS)


@pytest.mark.parametrize(("verb", "flag"), answers.OF_VERBS)
def test_an_option_that_a_verb_lacks_is_none_of_its_own(verb: str, flag: str) -> None:
    """Its answer would never be seen."""
    command = main.main.get_command(click.Context(main.main), verb)
    assert command is not None
    assert flag not in [word for option in command.params for word in option.opts]


def test_a_verb_of_another_tool_is_none_of_ours() -> None:
    """Its answer would never be seen."""
    assert sorted(set(answers.VERBS) & set(main.VERBS)) == []


@pytest.mark.parametrize("letter", sorted(answers.SHORT))
def test_a_letter_of_another_tool_is_none_of_ours(letter: str) -> None:
    """And its long spelling is known."""
    assert letter not in FLAGS
    tool, name = answers.SHORT[letter]
    error = options.error(letter, "", "", options.Context("run", FLAGS))
    assert error.message == f"{letter} is --{name} of {tool}"


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ("plan", "plan", 0),
        ("plna", "plan", 1),
        ("pla", "plan", 1),
        ("plans", "plan", 1),
        ("plen", "plan", 1),
        ("sbmiut", "submit", 2),
        ("submit", "status", 3),
        ("a", "abcdef", 3),
    ],
)
def test_distance(a: str, b: str, wanted: int) -> None:
    """Two letters that are swapped count once; more than two errors are not counted."""
    assert min(distance(a, b), 3) == min(distance(b, a), 3) == wanted


@pytest.mark.parametrize(
    ("word", "near"),
    [("sumbit", "submit"), ("rnu", "run"), ("ring", ""), ("go", ""), ("main", ""), ("date", ""), ("python", "")],
)
def test_nearest(word: str, near: str) -> None:
    """A short word of its own is no typing error."""
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
    """In five groups, none of them cut; and --help-all has every option of the verb in the same groups."""
    short, every = mnrun(verb, "--help").out, mnrun(verb, "--help-all").out
    for option in OPTIONS:
        flags = rf"\n  (-.*, )?--{option.name.replace('_', '-')}(?![\w-])"
        assert bool(re.search(flags, short)) == (verb in option.verbs and option.name in COMMON), option.name
        assert bool(re.search(flags, every)) == (verb in option.verbs), option.name
    for section in {option.section for option in OPTIONS}:
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
    """mnrun plan has all of them."""
    assert mnrun(verb, "--runtime", "host", *words).code in (2, 122)
    assert f"  {words[0]} " not in mnrun(verb, "--help-all").out
    assert f"{words[0]} " in mnrun("plan", "--help-all").out
    assert ("COMMAND" in mnrun(verb, "--help").out) == (verb != "shell")


def test_help_of_a_verb_is_its_own(mnrun: Terminal, job: Launched) -> None:
    """`mnrun help status` is `mnrun status --help`; nothing is launched."""
    assert mnrun("help", "status") == mnrun("status", "--help")
    assert mnrun("help", "profile", "show") == mnrun("profile", "show", "--help")
    assert job.plans == []

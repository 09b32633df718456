"""Find the end of the options in a typed line, and refuse what would be misread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mnrun.cli.words import options
from mnrun.config.options import BY_FLAG
from mnrun.errors import UsageError


@dataclass(frozen=True)
class Flags:
    """The flags of a verb. Those in `valued` take the word after them, and for those in `words` it may be an option."""

    every: frozenset[str]
    valued: frozenset[str]
    words: frozenset[str] = frozenset()


def end_of_options(args: Sequence[str], flags: Flags, verb: str, job_file: str = "") -> int:
    """Return the index of the first word that is no option. Raises UsageError at a word that would be misread."""
    context = options.Context(verb, flags.every, job_file)
    place = 0
    while place < len(args):
        word, following = args[place], args[place + 1] if place + 1 < len(args) else ""
        if word in ("-", "--") or not word.startswith("-"):
            return place
        _refuse_habit(word, following)
        place += 2 if _takes_next(word, following, flags, context) else 1
    return min(place, len(args))


def _takes_next(word: str, following: str, flags: Flags, context: options.Context) -> bool:
    """Return whether the word after an option is its value."""
    flag, equals, value = word.partition("=")
    if flag in flags.every:
        if equals and re.fullmatch("-[A-Za-z]", flag):
            raise UsageError(f"{word}: an option of one letter has no =", f"write {flag} {value}")
        taken = flag in flags.valued and not equals
        if taken and flag not in flags.words and (following == "--" or re.match("--.", following)):
            _refuse_option(flag, following, flags)
        return taken
    if word.startswith("--") or options.is_misspelt(flag, context):
        raise options.error(flag, value, _value(following), context)
    for place, letter in enumerate(word[1:], 1):
        if f"-{letter}" not in flags.every:
            raise options.error(f"-{letter}", word[place + 1 :], _value(following), context)
        if f"-{letter}" in flags.valued:
            return place == len(word) - 1
    return False


def _refuse_option(flag: str, following: str, flags: Flags) -> None:
    """Raise UsageError if the word after an option is an option of mnrun's own, and so not its value."""
    if following == "--" or following.partition("=")[0] in flags.every:
        option = BY_FLAG.get(flag)
        value = "|".join(option.choices) or option.metavar if option else "VALUE"
        long = f" (--{option.name.replace('_', '-')})" if option and len(flag) == 2 else ""
        raise UsageError(f"{flag}{long} needs a value, but {following} follows", f"write {flag} {value}")


def _value(following: str) -> str:
    return "" if following.startswith("-") else following


def _refuse_habit(word: str, following: str) -> None:
    """Raise UsageError at an option that another tool gives another meaning, by its value."""
    flag, value = (word, following) if len(word) == 2 else (word[:2], word[2:])
    if word == "-v" and ":" in following:
        raise UsageError(f"-v is --verbose here, and not docker's volume {following}", f"write --bind {following}")
    if flag == "-e" and "=" in value and not value.startswith("="):
        raise UsageError("-e is another tool's option", f"for a variable write -x {value}")
    if word == "-l" and re.match(r"(nodes|select|walltime|mem|ncpus)=", following):
        raise UsageError(f"-l is --label here, and not PBS's {following}", "write -N, --ntasks-per-node and --time")
    if flag == "-p" and re.fullmatch(r"\d+:\d+(/\w+)?", value):
        raise UsageError(
            f"-p is --partition here, and not docker's {value}", "leave it out: containers use the node's network"
        )
    if flag == "-w" and value.startswith("/"):
        raise UsageError(f"-w is --nodelist here, and not docker's directory {value}", f"write --chdir {value}")
    if flag == "-H" and value.startswith("/"):
        raise UsageError(f"-H is --hosts here, and not apptainer's {value}", f"write --container-args --home={value}")
    if word == "--gpus=all" or (word == "--gpus" and following == "all"):
        problem = "--gpus is Slurm's number here, and not docker's all"
        raise UsageError(problem, "leave it out: containers see the job's GPUs")

"""Find the end of the options in a typed line, and answer those that mnrun lacks or that would be misread."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Sequence

from mnrun.cli.words.answers import ANSWERS, LETTERS, OF_VERBS, PASSED
from mnrun.config.options import BY_FLAG
from mnrun.errors import UsageError
from mnrun.near import nearest, shortened
from mnrun.record import Record


class Flags(Record):
    """The flags of a verb."""

    verb: str
    every: frozenset[str]
    valued: frozenset[str]  # those that take the word after them
    words: frozenset[str] = frozenset()  # those for which that word may be an option
    job_file: str = ""  # named before them


def end_of_options(args: Sequence[str], flags: Flags) -> int:
    """Return the index of the first word that is no option. Raises UsageError at a word that would be misread."""
    place = 0
    while place < len(args):
        word, following = args[place], args[place + 1] if place + 1 < len(args) else ""
        if word in ("-", "--") or not word.startswith("-"):
            return place
        _refuse_habit(word, following)
        place += 2 if _takes_next(word, following, flags) else 1
    return min(place, len(args))


def _takes_next(word: str, following: str, flags: Flags) -> bool:
    flag, equals, value = word.partition("=")
    if flag in flags.every:
        if equals and re.fullmatch("-[A-Za-z]", flag):
            raise UsageError(f"{word}: an option of one letter has no =", f"write {flag} {value}")
        taken = flag in flags.valued and not equals
        if taken and flag not in flags.words and (following == "--" or re.match("--.", following)):
            _refuse_option(flag, following, flags)
        return taken
    behind = "" if following.startswith("-") else following
    if word.startswith("--") or _is_misspelt(flag, flags):
        raise error(flag, value, behind, flags)
    for place, letter in enumerate(word[1:], 1):
        if f"-{letter}" not in flags.every:
            raise error(f"-{letter}", word[place + 1 :], behind, flags)
        if f"-{letter}" in flags.valued:
            return place == len(word) - 1
    return False


def _refuse_option(flag: str, following: str, flags: Flags) -> None:
    if following == "--" or following.partition("=")[0] in flags.every:
        option = BY_FLAG.get(flag)
        value = "|".join(option.choices) or option.metavar if option else "VALUE"
        long = f" (--{option.name.replace('_', '-')})" if option and len(flag) == 2 else ""
        raise UsageError(f"{flag}{long} needs a value, but {following} follows", f"write {flag} {value}")


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
        problem = "--gpus is a number here, and not docker's all"
        raise UsageError(problem, "leave it out: containers see the job's GPUs")


def error(flag: str, value: str, following: str, flags: Flags) -> UsageError:
    """Return the error for an option that the verb lacks. `value` is attached to it, and `following` the next word."""
    right = f"--{flag.lstrip('-').replace('_', '-')}"
    if right in flags.every and flag not in ANSWERS:
        remedy = f"write {right}"
    else:
        remedy = next(_answers(flag, value, following, flags.verb), "") or _guess(flag, value or following, flags)
    return UsageError(f"there is no option {flag}", remedy)


def _is_misspelt(flag: str, flags: Flags) -> bool:
    """Return whether a word with one dash is one option, and no row of options of one letter."""
    return f"-{flag}" in flags.every or any(_answers(flag, "", "", flags.verb))


def _answers(flag: str, value: str, following: str, verb: str) -> Iterator[str]:
    """Yield what to do in place of an option of another tool's. Our own tables come first."""
    from mnrun.schedulers import KNOWN

    others = [scheduler.FOREIGN for scheduler in KNOWN.values()]
    answers = [ANSWERS, *(other.answers for other in others)]
    letters = [LETTERS, *(other.letters for other in others)]
    name = next((some[flag] for some in letters if flag in some), flag.lstrip("-"))
    for key in (flag, name, name.replace("_", "-")):
        yield from (some[key] for some in answers if key in some)
    for option, text in PASSED.items():
        if word := _passed(name, value, following, text):
            dashes = flag[: len(flag) - len(flag.lstrip("-"))]
            passed = word.replace("=", " ", 1) if option == "--mpi-args" else word
            yield f"use {option} {shlex.quote(dashes + passed)}"
    for scheduler in KNOWN.values():
        if word := _passed(name, value, following, scheduler.FOREIGN.passed):
            submit = "" if verb in ("submit", "plan") else "mnrun submit "
            yield f"use {submit}--{scheduler.OPTION.name} {shlex.quote(word)}"


def _passed(name: str, value: str, following: str, names: str) -> str:
    """Return an option with its value as other programs take it, or "" if it is none of these names."""
    known = names.split()
    if f"{name}=" in known:
        return f"{name}={value or following or 'VALUE'}"
    return (f"{name}={value}" if value else name) if name in known else ""


def of_verb(verb: str, flag: str, flags: Collection[str]) -> UsageError:
    if (verb, flag) in OF_VERBS:
        return UsageError(f"mnrun {verb} has no option {flag}", OF_VERBS[verb, flag])
    near, line = nearest(flag, flags), f"mnrun {verb}".rstrip()
    remedy = f"did you mean {near}?" if near else f"{line} --help lists its options"
    if flag in BY_FLAG and not near:
        remedy = "run, plan, submit and shell have it"
    return UsageError(f"{line} has no option {flag}", remedy)


def _guess(flag: str, value: str, flags: Flags) -> str:
    if near := nearest(flag, flags.every) or shortened(flag, flags.every):
        return f"did you mean {near}?"
    if flags.job_file:
        words = shlex.join(word for word in (flag, value) if word)
        return f"for the program write it after --: mnrun {flags.job_file} -- {words}"
    return f"mnrun {flags.verb} --help-all lists all; the program's own options come after its name"

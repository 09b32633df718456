"""Answer an option that mnrun lacks, by the tool that has it, or by the option that was meant."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass

from mnrun.cli.words.answers import ANSWERS, CLUSTERS, OF_VERBS, SHORT
from mnrun.cli.words.tools import NOT_OF_SALLOC, TOOLS, Tool
from mnrun.config.options import BY_FLAG
from mnrun.errors import UsageError
from mnrun.near import nearest, shortened

MPI = ("Open MPI", "MPICH")  # these also take a long option with one dash
ENGINES = ("docker", "podman")


@dataclass(frozen=True)
class Context:
    """The place of an option: a verb with its flags, and the job file that was named before it."""

    verb: str
    flags: Collection[str]
    job_file: str = ""


def tools(flag: str) -> tuple[Tool, ...]:
    """Return the tools that have the option. torchrun takes `_` for `-`."""
    name = flag.lstrip("-")
    some = [tool for tool in TOOLS if len(name) > 1 and (flag.startswith("--") or tool.name in MPI)]
    found = tuple(tool for tool in some if tool.has(name))
    return found or tuple(tool for tool in some if tool.has(name.replace("_", "-")))


def is_misspelt(flag: str, context: Context) -> bool:
    """Return whether a word with one dash is a long option, and no row of options of one letter."""
    return flag in ANSWERS or flag in CLUSTERS or f"-{flag}" in context.flags or bool(tools(flag))


def error(flag: str, value: str, following: str, context: Context) -> UsageError:
    """Return the error for an option that the verb lacks. `value` is attached to it, and `following` the next word."""
    name = flag.lstrip("-")
    found = tools(flag)
    if flag in CLUSTERS:
        return UsageError(f"{flag} is docker's --{CLUSTERS[flag]}", ANSWERS[CLUSTERS[flag]])
    if flag in SHORT:
        owner, name = SHORT[flag]
        tool = next((tool for tool in TOOLS if tool.name == owner and tool.has(name)), TOOLS[0])
        return UsageError(
            f"{flag} is --{name} of {owner}",
            ANSWERS.get(name) or _elsewhere(tool, name, "", value or following, context),
        )
    right = f"--{name.replace('_', '-')}"
    if right in context.flags and flag not in ANSWERS:
        return UsageError(f"there is no option {flag}", f"write {right}")
    if flag in ANSWERS or found:
        return UsageError(_owners(flag, found), _remedy(flag, value, following, found, context))
    return _guess(flag, value or following, context)


def of_verb(verb: str, flag: str, flags: Collection[str]) -> UsageError:
    """Return the error for an option that a verb without the table of options lacks."""
    if (verb, flag) in OF_VERBS:
        return UsageError(f"mnrun {verb} has no option {flag}", OF_VERBS[verb, flag])
    near = nearest(flag, flags)
    remedy = f"did you mean {near}?" if near else f"mnrun {verb} --help lists its options"
    if flag in BY_FLAG and not near:
        remedy = "run, plan, submit and shell have it"
    return UsageError(f"mnrun {verb} has no option {flag}", remedy)


def _owners(flag: str, found: tuple[Tool, ...]) -> str:
    names = [tool.name for tool in found]
    if not names:
        return f"there is no option {flag}"
    listed = " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
    return f"{flag} is an option of {listed}"


def _remedy(flag: str, value: str, following: str, found: tuple[Tool, ...], context: Context) -> str:
    name = flag.lstrip("-")
    for key in (flag, name, name.replace("_", "-")):
        if key in ANSWERS:
            return ANSWERS[key]
    return _elsewhere(found[0], name if found[0].has(name) else name.replace("_", "-"), value, following, context)


def _elsewhere(tool: Tool, name: str, value: str, following: str, context: Context) -> str:
    """Return the option of mnrun that passes the option on to its tool. Some flags have an attached `value`."""
    value = value or ("" if name in tool.flags else following or "VALUE")
    word = f"{name}={value}" if value else name
    if tool.name == "sbatch":
        return _to_slurm(name, word, context)
    if tool.name == "srun":
        return f"use --launcher srun --mpi-args {shlex.quote(f'--{word}')}"
    if tool.name in MPI:
        dashes = "--" if tool.name == MPI[0] else "-"
        return f"use --mpi-args {shlex.quote(f'{dashes}{name} {value}'.rstrip())}"
    if tool.name == "torchrun":
        return f"write it after torchrun: mnrun --image torch.sif -- torchrun --{word} train.py"
    engine = "--runtime docker " if tool.name in ENGINES else ""
    return f"use {engine}--container-args {shlex.quote(f'--{word}')}"


def _to_slurm(name: str, word: str, context: Context) -> str:
    if context.verb in ("submit", "plan"):
        return f"use --slurm {shlex.quote(word)}"
    salloc = "" if name in NOT_OF_SALLOC else f", or salloc --{shlex.quote(word)} mnrun …"
    return f"use mnrun submit --slurm {shlex.quote(word)}{salloc}"


def _guess(flag: str, value: str, context: Context) -> UsageError:
    near = nearest(flag, context.flags) or shortened(flag, context.flags)
    if near:
        return UsageError(f"there is no option {flag}", f"did you mean {near}?")
    if context.job_file:
        words = shlex.join(word for word in (flag, value) if word)
        return UsageError(
            f"there is no option {flag}", f"for the program write it after --: mnrun {context.job_file} -- {words}"
        )
    remedy = f"mnrun {context.verb} --help-all lists all; the program's own options come after its name"
    return UsageError(f"there is no option {flag}", remedy)

"""Turn the table of options into click's, and explain other tools' options."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from mnrun.config.options import FOREIGN, OPTIONS, Option
from mnrun.errors import UsageError

COMMAND = {
    "ignore_unknown_options": False,
    "allow_interspersed_args": False,
    "help_option_names": ["-h", "--help"],
}


class JobVerb(click.Command):
    """A verb whose options end at the first other word. Other tools' options get an answer of their own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell asks for completions
            return super().parse_args(ctx, args)
        options = [p for p in self.params if isinstance(p, click.Option) and not p.is_flag]
        valued = {flag for option in options for flag in option.opts}
        end = refuse_foreign(args, valued)
        file = ""
        if end < len(args) and args[end].endswith(".toml"):
            file = args[end]
            args = [*args[:end], *args[end + 1 :]]
            refuse_foreign(args, valued)
        rest = super().parse_args(ctx, args)
        ctx.params["job_file"] = file
        return rest


def refuse_foreign(args: Sequence[str], valued: Container[str]) -> int:
    """Return the index of the first word that is no option. The flags in `valued` take the word after them.

    Raises UsageError at another tool's option.
    """
    words = iter(range(len(args)))
    for place in words:
        word = args[place]
        following = args[place + 1] if place + 1 < len(args) else ""
        if word == "--" or not word.startswith("-"):
            return place
        name = word.partition("=")[0]
        if name in FOREIGN:
            raise UsageError(f"{name} is another tool's option", f"use {FOREIGN[name]}")
        if word == "-v" and ":" in following:
            raise UsageError(f"-v is --verbose here, and not docker's volume {following}", f"write --bind {following}")
        if word.startswith("-e") and "=" in (following if word == "-e" else word):
            variable = word[2:] or following or "NAME=VALUE"
            raise UsageError("-e is another tool's option", f"for a variable write -x {variable}")
        if word in valued:
            next(words, None)
    return len(args)


def job_options(verb: Any) -> Any:
    """Put the whole table of options on a click command."""
    for option in reversed(OPTIONS):
        verb = click.option(*_flags(option), option.name, **_click(option))(verb)
    files = click.Path()  # shells complete paths
    return click.argument(
        "command", nargs=-1, type=click.UNPROCESSED, shell_complete=lambda *words: files.shell_complete(*words)
    )(verb)


def _flags(option: Option) -> tuple[str, ...]:
    """Return an option's flags, with --no-X for a flag that has it."""
    return tuple(f"{flag}/--no-{flag[2:]}" if option.negatable else flag for flag in option.flags)


def _click(option: Option) -> dict[str, Any]:
    shared: dict[str, Any] = {"help": _help(option)}
    if option.kind == "flag":
        return {**shared, "is_flag": True, "default": None}
    metavar = "|".join(option.choices) or option.metavar or option.kind.upper()
    return {
        **shared,
        "type": str,
        "multiple": option.repeats,
        "metavar": metavar,
        "shell_complete": lambda ctx, param, incomplete: _completed(option, incomplete),
    }


def _completed(option: Option, incomplete: str) -> list[CompletionItem]:
    """Return the completions of `incomplete`: choices, or the shell's own files and directories."""
    kind = "dir" if option.metavar == "DIR" else "file" if option.metavar.startswith(("FILE", "REF", "SRC")) else ""
    if kind:
        return [CompletionItem(incomplete, type=kind)]
    return [CompletionItem(choice) for choice in option.choices if choice.startswith(incomplete)]


def _help(option: Option) -> str:
    return option.help + (f"  [default: {option.default}]" if option.default else "")

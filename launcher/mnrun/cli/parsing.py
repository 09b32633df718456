"""Turn the table of options into click's, and read the line of a verb that has it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from mnrun.cli.words.help import help_all, write_options
from mnrun.config.options import OPTIONS, Option
from mnrun.errors import NoImageError

if TYPE_CHECKING:
    from mnrun.cli.words.line import Flags
    from mnrun.errors import UsageError

COMMAND = {
    "ignore_unknown_options": False,
    "allow_interspersed_args": False,
    "help_option_names": ["-h", "--help"],
}


class JobVerb(click.Command):
    """A verb whose options end at the first other word. A line that would be misread gets an answer of its own."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), help_all()]

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[JOB.toml]", "[OPTIONS]", *([] if self.name == "shell" else ["[--]", "COMMAND…"])]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self, ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell asks for completions
            return super().parse_args(ctx, args)
        from mnrun.cli.words import command
        from mnrun.cli.words.line import end_of_options

        verb = str(ctx.info_name)
        flags = self._flags(ctx)
        end = end_of_options(args, flags, verb)
        file = ""
        if end < len(args) and args[end].endswith(".toml"):
            file = args[end]
            args = [*args[:end], *args[end + 1 :]]
            end = end_of_options(args, flags, verb, file)
        plain = args[end : end + 1] != ["--"]
        words = tuple(args[end:] if plain else args[end + 1 :])
        line = command.Line(verb, (*((file,) if file else ()), *args[:end]), words, plain, file)
        asks_for_help = {"-h", "--help", "--help-all"} & set(args[:end])
        if not asks_for_help:
            command.refuse(line, self._verbs(ctx))
        rest = super().parse_args(ctx, args)
        ctx.params["job_file"] = file
        ctx.obj = line
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        from mnrun.cli.words import command
        from mnrun.system.screen import Screen

        for warning in filter(None, (command.size_behind(ctx.obj), command.starter_within(ctx.obj))):
            Screen().warn(warning)
        try:
            return super().invoke(ctx)
        except NoImageError as error:
            raise self._verb_behind(ctx) or command.options_behind(ctx.obj) or error from None

    def _verb_behind(self, ctx: click.Context) -> UsageError | None:
        """Return the error for `mnrun --job-dir DIR logs 7`, a line whose first word is no program."""
        from mnrun.cli.words import command

        line = ctx.obj
        group = ctx.parent.command if ctx.parent is not None else None
        if not line.plain or line.verb != "run" or not line.options or not isinstance(group, click.Group):
            return None
        verb = group.get_command(ctx, line.command[0]) if line.command else None
        if verb is None:
            return None
        options = (param for param in verb.get_params(ctx) if isinstance(param, click.Option))
        return command.verb_behind(line, str(verb.name), {flag for option in options for flag in option.opts})

    def _flags(self, ctx: click.Context) -> Flags:
        from mnrun.cli.words.line import Flags

        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        return Flags(
            every=frozenset(flag for option in options for flag in (*option.opts, *option.secondary_opts)),
            valued=frozenset(flag for option in options if not option.is_flag for flag in option.opts),
            words=frozenset(flag for option in OPTIONS if option.kind == "words" for flag in option.flags),
        )

    def _verbs(self, ctx: click.Context) -> list[str]:
        group = ctx.parent.command if ctx.parent is not None else None
        return group.list_commands(ctx) if isinstance(group, click.Group) else []


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


def json_option(verb: Callable[..., None]) -> Callable[..., None]:
    """Put --json on a click command, and its other spelling."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
    @click.option(
        "--format",
        "form",
        type=click.Choice(("table", "json")),
        default="table",
        metavar="table|json",
        help="Format of the answer.  [default: table]",
    )
    @functools.wraps(verb)
    def run(*words: Any, as_json: bool, form: str, **options: Any) -> None:
        verb(*words, as_json=as_json or form == "json", **options)

    return run


def print_text(text: str) -> None:
    """Print lines with words of others: a file, an image or a job. A terminal gets no control characters of theirs."""
    from mnrun.errors import one_line

    click.echo("\n".join(map(one_line, text.split("\n"))) if sys.stdout.isatty() else text)


def print_json(answer: object) -> None:
    """Print the answer of a verb, a dataclass whose schema is in docs/reference/schemas/."""
    from mnrun import versioned

    click.echo(versioned.text(answer, 2), nl=False)

"""Turn the table of options into click's, and read the line of a verb that has it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from mnrun.cli import complete
from mnrun.cli.words.help import help_all, write_options
from mnrun.cli.words.verbs import VERBS
from mnrun.config.options import BY_NAME, OPTIONS, Option
from mnrun.errors import NoImageError

if TYPE_CHECKING:
    from mnrun.cli.words.options import Flags
    from mnrun.errors import UsageError

COMMAND = {"ignore_unknown_options": False, "allow_interspersed_args": False}


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
        from mnrun.cli.words.options import end_of_options

        verb = str(ctx.info_name)
        flags = self._flags(ctx)
        end = end_of_options(args, flags)
        file = ""
        if end < len(args) and args[end].endswith(".toml"):
            file = args[end]
            args = [*args[:end], *args[end + 1 :]]
            end = end_of_options(args, flags._replace(job_file=file))
        plain = args[end : end + 1] != ["--"]
        words = tuple(args[end:] if plain else args[end + 1 :])
        line = command.Line(verb, (*((file,) if file else ()), *args[:end]), words, plain, file)
        asks_for_help = {"-h", "--help", "--help-all"} & set(args[:end])
        if not asks_for_help:
            command.refuse(line, VERBS)
        rest = super().parse_args(ctx, args)
        ctx.params["job_file"] = file
        ctx.obj = line
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        from mnrun.cli.words import command
        from mnrun.system.screen import Screen

        warnings = list(filter(None, (command.size_behind(ctx.obj), command.starter_within(ctx.obj))))
        if warnings and (meant := _job_meant(ctx)):
            raise meant
        for warning in warnings:
            Screen().warn(warning)
        try:
            return super().invoke(ctx)
        except NoImageError as error:
            near = self._verb_behind(ctx) or command.options_behind(ctx.obj) or _job_meant(ctx)
            raise near or command.without_image(ctx.obj, VERBS, error) from None

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
        return command.verb_behind(
            line, str(verb.name), {flag for param in verb.get_params(ctx) for flag in param.opts}
        )

    def _flags(self, ctx: click.Context) -> Flags:
        from mnrun.cli.words.options import Flags

        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        return Flags(
            verb=str(ctx.info_name),
            every=frozenset(flag for option in options for flag in (*option.opts, *option.secondary_opts)),
            valued=frozenset(flag for option in options if not option.is_flag for flag in option.opts),
            words=frozenset(flag for option in OPTIONS if option.kind == "words" for flag in option.flags),
        )


def _job_meant(ctx: click.Context) -> UsageError | None:
    """Return the error for `mnrun submit 137 -N 1`, a line with a job in the place of its command."""
    from mnrun.attach import meant, user
    from mnrun.errors import UsageError

    word = "".join(ctx.obj.command[:1])
    if ctx.obj.verb != "submit" or not ctx.obj.plain or not word or "/" in word:
        return None
    if not meant.known(word, user.bases(ctx.params.get("job_dir"))):
        return None
    again = shlex.join(("mnrun", "rerun", *ctx.obj.command, *ctx.obj.options))
    return UsageError(f"{word} is a job, and submit takes a command or a job file", f"write {again}")


def job_options(verb: Any) -> Any:
    files = click.Path()  # shells complete paths
    return click.argument(
        "command", nargs=-1, type=click.UNPROCESSED, shell_complete=lambda *words: files.shell_complete(*words)
    )(some_options(*BY_NAME)(verb))


def some_options(*names: str) -> Callable[[Any], Any]:
    """Return a decorator that puts these options of the table on a click command."""

    def put(verb: Any) -> Any:
        for name in reversed(names):
            made: Any = lambda _, name=name: _option(name)  # noqa: E731
            verb = click.option(cls=made)(verb)
        return verb

    return put


job_dir_option = some_options("job_dir")


@cache
def _option(name: str) -> click.Option:
    """Return click's option of that name, which all verbs share: `run` would make those of four verbs otherwise."""
    option = BY_NAME[name]
    return click.Option((*_flags(option), name), **_click(option))


def _flags(option: Option) -> tuple[str, ...]:
    return tuple(f"{flag}/--no-{flag[2:]}" if option.negatable else flag for flag in option.flags)


def _click(option: Option) -> dict[str, Any]:
    text = option.help + (f"  [default: {option.default}]" if option.default else "")
    if option.kind == "flag":
        return {"help": text, "is_flag": True, "default": None}
    return {
        "help": text,
        "type": str,
        "multiple": option.repeats,
        "metavar": "|".join(option.choices) or option.metavar or option.kind.upper(),
        "shell_complete": complete.OF_OPTIONS.get(option.name)
        or (lambda ctx, param, incomplete: _completed(option, incomplete)),
    }


def _completed(option: Option, incomplete: str) -> list[CompletionItem]:
    kind = "dir" if option.metavar == "DIR" else "file" if option.metavar.startswith(("FILE", "REF", "SRC")) else ""
    if kind:
        return [CompletionItem(incomplete, type=kind)]
    return [CompletionItem(choice) for choice in option.choices if choice.startswith(incomplete)]


def rank_numbers(text: str, option: str) -> list[int]:
    """Return the ranks in `0-3,8`. Raises UsageError."""
    import re

    from mnrun.errors import UsageError
    from mnrun.schedulers.vocabulary import numbers

    found = numbers(text) if re.fullmatch(r"(\d{1,7}(-\d{1,7})?(,|$))*", text, re.ASCII) else []
    if text and not found:
        raise UsageError(f"{option} {text!r} is no list of ranks", "write 0-3, or 0,2,8")
    return found


def json_option(verb: Any) -> Any:
    """Put --json on a click command. `--format json` is the older spelling of it."""
    old = click.option(
        "--format",
        type=click.Choice(("table", "json")),
        hidden=True,
        expose_value=False,
        is_eager=True,  # read before --json
        callback=lambda context, param, value: context.meta.update(form=value),
    )
    new = click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print JSON, for programs.",
        callback=lambda context, param, value: value or context.meta.get("form") == "json",
    )
    return new(old(verb))


def print_text(text: str) -> None:
    """Print lines with words of others: a file, an image or a job. A terminal gets no control characters of theirs."""
    from mnrun.errors import one_line

    click.echo("\n".join(map(one_line, text.split("\n"))) if sys.stdout.isatty() else text)


def print_json(answer: object) -> None:
    """Print the answer of a verb, a dataclass whose schema is in docs/reference/schemas/."""
    from mnrun import versioned

    click.echo(versioned.text(answer, 2), nl=False)

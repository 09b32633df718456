"""Run the verb of a command line: `mnrun [VERB] [OPTIONS] [--] COMMAND…`. A verb counts only as the very first word."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import shutil
import sys
import traceback
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from mnrun import __version__
from mnrun.cli.words import first
from mnrun.cli.words.help import page
from mnrun.cli.words.options import of_verb
from mnrun.errors import BUG, LaunchError, UsageError

# verb -> its module in this package. Only the module of the verb in use is imported.
VERBS = {
    "run": "run",
    "plan": "run",
    "submit": "submit",
    "init": "profile",
    "profile": "profile",
    "completion": "profile",
    "status": "jobs",
    "logs": "jobs",
    "wait": "jobs",
    "cancel": "jobs",
    "nodes": "jobs",
    "exec": "exec",
    "why": "why",
    "clean": "clean",
    "shell": "shell",
    "check": "check",
    "image": "image",
    "help": "words.help",
    "version": "words.help",
}


class DefaultVerb(click.Group):
    """A group that takes `mnrun OPTIONS COMMAND` as `mnrun run OPTIONS COMMAND`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = getattr(importlib.import_module(f".{VERBS[name]}", __package__), name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        items = super().shell_complete(ctx, incomplete)
        run = self.get_command(ctx, "run")
        assert run is not None
        values = {item.value for item in items}
        also = run.shell_complete(click.Context(run, parent=ctx, info_name="run"), incomplete)
        return [*items, *(item for item in also if item.value not in values)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            args = ["--help"]
        if args[0] not in (*VERBS, "-h", "--help", "-V", "--version"):
            if not ctx.resilient_parsing:
                first.refuse(args[0], VERBS, _exists)
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        return page()


def _exists(word: str) -> bool:
    """Return whether a word is a file or a program on this machine."""
    return os.path.exists(word) or shutil.which(word) is not None


@click.group(cls=DefaultVerb, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="mnrun", message="%(prog)s %(version)s")
def main() -> None:
    """Run one job on many nodes, in containers."""


def entry() -> NoReturn:
    """Run the console script: one line for a foreseen error, a report for any other."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character that the terminal cannot show must not raise
    try:
        main.main(standalone_mode=False)
        code = 0
    except LaunchError as error:
        code = _complain(str(error), error.code)
    except click.NoSuchOption as error:
        code = _complain(str(_lacking(error)), UsageError.code)
    except click.ClickException as error:
        code = _complain(str(_misread(error)), UsageError.code)
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        code = 141
    except Exception:
        code = _complain("this is a bug in mnrun; please report the lines above", BUG, traceback.format_exc())
    if sys.stdout is not None:
        sys.stdout.flush()
    sys.exit(code)


def _lacking(error: click.NoSuchOption) -> UsageError:
    context = error.ctx
    if context is None:
        return UsageError(f"there is no option {error.option_name}", "mnrun --help shows the most used ones")
    flags = [flag for param in context.command.get_params(context) for flag in (*param.opts, *param.secondary_opts)]
    return of_verb(_verb(context), error.option_name, [flag for flag in flags if flag.startswith("-")])


def _misread(error: click.ClickException) -> UsageError:
    """Return a mistake that click has noticed, with the page that says what the verb takes."""
    problem = " ".join(error.format_message().split()).rstrip(".")  # a choice has several lines
    context = getattr(error, "ctx", None)  # click's parser leaves it out
    verb = _verb(context) if context else next((word for word in sys.argv[1:2] if word in VERBS), "run")
    remedy = "" if problem.endswith("?") else f"mnrun {verb} --help shows what it takes"
    return UsageError(problem[0].lower() + problem[1:], remedy)


def _verb(context: click.Context) -> str:
    return context.command_path[len(context.find_root().command_path) + 1 :]


def _complain(message: str, code: int, before: str = "") -> int:
    with contextlib.suppress(OSError):  # nobody reads the message, and the exit code counts all the same
        print(f"{before}mnrun: {message}", file=sys.stderr, flush=True)
    return code


__all__ = ["entry", "main"]

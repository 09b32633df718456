"""Run the verb of a command line: `mnrun [VERB] [OPTIONS] [--] COMMAND…`. A verb counts only as the very first word."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import keyword
import os
import sys
from typing import IO, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from mnrun import __version__
from mnrun.cli import complete
from mnrun.cli.words.verbs import VERBS
from mnrun.errors import BUG, LaunchError, UsageError, tell


class DefaultVerb(click.Group):
    """A group that takes `mnrun OPTIONS COMMAND` as `mnrun run OPTIONS COMMAND`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = getattr(
            importlib.import_module(f".{VERBS[name].module}", __package__),
            name.replace("-", "_") + "_" * keyword.iskeyword(name),
        )
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # click's own answer would import every verb, for its summary
        verbs = [CompletionItem(name, help=verb.summary) for name, verb in VERBS.items() if name.startswith(incomplete)]
        items = [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]
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
                from mnrun.cli.words import command

                command.refuse_first(args[0], VERBS)
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, click sees that nobody reads it

    def get_help(self, ctx: click.Context) -> str:
        from mnrun.cli.words.help import page

        return page()


@click.group(cls=DefaultVerb, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="mnrun", message="%(prog)s %(version)s")
def main() -> None:
    """Run one job on many nodes, in containers."""


def entry() -> NoReturn:
    """Run the console script: one line for a foreseen error, a report for any other."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character that the terminal cannot show must not raise
    stdout = sys.stdout
    if complete.ASKED in os.environ:
        complete.prepare()
    try:
        main.main(standalone_mode=False)
        code = 0
    except LaunchError as error:
        code = tell(error, _anchor(error))
    except click.NoSuchOption as error:
        code = _complain(str(_lacking(error)), UsageError.code)
    except click.ClickException as error:
        code = _complain(str(_misread(error)), UsageError.code)
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except SystemExit:
        if sys.stdout is stdout:
            raise
        code = 141  # 128 + SIGPIPE: click puts another stream there where nobody reads this one, and exits with 1
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            code = _complain(f"cannot write the output: {error.strerror}", 1)
            if stdout is not None:
                _discard(stdout)
        else:
            import traceback

            code = _complain("this is a bug in mnrun; please report the lines above", BUG, traceback.format_exc())
    finally:
        try:
            sys.stderr.flush()
        except OSError:
            _discard(sys.stderr)
    sys.exit(code)


def _anchor(error: LaunchError) -> str:
    """Return the way to a page about an error. A terminal alone shows it: programs read the messages, too."""
    if error.told or sys.stderr is None or not sys.stderr.isatty():
        return ""
    with contextlib.suppress(OSError):  # mnrun was installed anew meanwhile, or without its pages
        from mnrun.cli.explain import anchor

        words = anchor(str(error), error.code)
        return f" (mnrun explain {words})" if words else ""
    return ""


def _discard(stream: IO[str]) -> None:
    """Leave out what a stream could not write. Python would try again at its end, and exit with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _lacking(error: click.NoSuchOption) -> UsageError:
    from mnrun.cli.words.options import of_verb

    context = error.ctx
    if context is None:
        return UsageError(f"there is no option {error.option_name}", "mnrun --help shows the most used ones")
    flags = [flag for param in context.command.get_params(context) for flag in (*param.opts, *param.secondary_opts)]
    return of_verb(_verb(context), error.option_name, [flag for flag in flags if flag.startswith("-")])


def _misread(error: click.ClickException) -> UsageError:
    from mnrun.cli.words.answers import OF_VERBS

    problem = " ".join(error.format_message().split()).rstrip(".")  # a choice has several lines
    context = getattr(error, "ctx", None)  # click's parser leaves it out
    verb = _verb(context) if context else next((word for word in sys.argv[1:2] if word in VERBS), "run")
    _, lacks, name = problem.partition("No such command ")
    remedy = OF_VERBS.get((verb, name.strip("'"))) if lacks else None
    if remedy is None:
        remedy = "" if problem.endswith("?") else f"mnrun {verb} --help shows what it takes"
    return UsageError(problem[0].lower() + problem[1:], remedy)


def _verb(context: click.Context) -> str:
    return context.command_path[len(context.find_root().command_path) + 1 :]


def _complain(message: str, code: int, before: str = "") -> int:
    with contextlib.suppress(OSError):  # nobody reads the message, and the exit code counts all the same
        print(f"{before}mnrun: {message}", file=sys.stderr, flush=True)
    return code


__all__ = ["VERBS", "entry", "main"]

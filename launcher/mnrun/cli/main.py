"""Run the verb of a command line: `mnrun [VERB] [OPTIONS] [--] COMMAND…`. A verb counts only as the very first word."""

from __future__ import annotations

import importlib
import io
import sys
import traceback
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from mnrun import __version__
from mnrun.errors import BUG, LaunchError, UsageError

# verb -> its module in this package. Only the module of the verb in use is imported.
VERBS = {
    "run": "run",
    "plan": "plan",
    "submit": "submit",
    "init": "profile",
    "profile": "profile",
    "completion": "profile",
    "status": "jobs",
    "logs": "jobs",
    "wait": "jobs",
    "cancel": "jobs",
    "nodes": "jobs",
    "clean": "clean",
    "shell": "shell",
    "check": "check",
    "image": "image",
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
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DefaultVerb, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="mnrun", message="%(prog)s %(version)s")
def main() -> None:
    """Run one job on many nodes, in containers.

    \b
    mnrun [run] [OPTIONS] COMMAND…    run COMMAND on the nodes of the Slurm job that you are in
    mnrun [run] --hosts LIST …        run it on hosts that you can log in to
    mnrun plan [OPTIONS] COMMAND…     show what run would do
    mnrun submit [OPTIONS] COMMAND…   submit it as a batch job; JOB.toml can replace OPTIONS, here as above
    mnrun status | logs | wait | cancel ID…   follow and end submitted jobs
    mnrun shell [OPTIONS]             open a prompt in the job's container; it gets an allocation if there is none
    mnrun check [OPTIONS]             show what the nodes have, and what is missing

    mnrun's options end at the first word that is not an option. The rest is the program and its arguments.
    """


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
    except click.ClickException as error:
        code = _complain(error.format_message(), UsageError.code)
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        code = 141
    except Exception:
        code = _complain("this is a bug in mnrun; please report the lines above", BUG, traceback.format_exc())
    if sys.stdout is not None:
        sys.stdout.flush()
    sys.exit(code)


def _complain(message: str, code: int, before: str = "") -> int:
    print(f"{before}mnrun: {message}", file=sys.stderr, flush=True)
    return code


__all__ = ["entry", "main"]

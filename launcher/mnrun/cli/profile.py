"""`mnrun init`, `profile` and `completion`: their lines. work/profile.py does their work."""

from __future__ import annotations

from typing import Any

import click


@click.command()
@click.argument("file", default="job.toml")
def init(**given: Any) -> None:
    """Write a commented job file. An existing file is not changed."""
    from mnrun.cli.work import profile as work

    work.init(**given)


@click.group(invoke_without_command=True)
@click.pass_context
def profile(context: click.Context) -> None:
    """Show the values that this site and you have set for every job."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@profile.command("list")
def list_(**given: Any) -> None:
    """List the profiles. A `*` marks the one that is used here."""
    from mnrun.cli.work import profile as work

    work.list_(**given)


@profile.command()
@click.argument("name", default="")
def show(**given: Any) -> None:
    """Show every value that a job starts with, and its origin."""
    from mnrun.cli.work import profile as work

    work.show(**given)


@profile.command()
def schema(**given: Any) -> None:
    """Print the JSON Schema of job files, for editors."""
    from mnrun.cli.work import profile as work

    work.schema(**given)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the lines that make SHELL complete mnrun's options: `eval "$(mnrun completion bash)"`."""
    from click.shell_completion import get_completion_class

    from mnrun.cli import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main.main, {}, "mnrun", "_MNRUN_COMPLETE").source())

"""`mnrun init`, `profile` and `completion`: set up mnrun for a person."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mnrun.config import docs, load, profiles
from mnrun.config.layers import Setting
from mnrun.errors import SchedulerError, UsageError
from mnrun.planning import variables
from mnrun.running import session
from mnrun.system.screen import Screen


@click.command()
@click.argument("file", default="job.toml")
def init(file: str) -> None:
    """Write a commented job file. An existing file is not changed."""
    settings = load.gather({}, "", os.environ, session.cwd(), str(Path.home())).settings
    try:
        with open(file, "x", encoding="utf-8") as page:
            page.write(docs.job_file(settings))
    except FileExistsError:
        raise UsageError(f"{file} exists", "name another: mnrun init FILE") from None
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    click.echo(file)


@click.group(invoke_without_command=True)
@click.pass_context
def profile(context: click.Context) -> None:
    """Show the values that this site and you have set for every job."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@profile.command("list")
def list_() -> None:
    """List the profiles. A `*` marks the one that is used here."""
    shelf = load.find(os.environ, str(Path.home()))
    for warning in shelf.warnings:
        Screen().warn(warning)
    sheet = None
    try:
        sheet = load.usual(shelf, os.environ)
    except (SchedulerError, profiles.TwoMatchError) as error:
        Screen().warn(str(error))
    for profile in shelf.profiles:
        when = [f"cluster={name}" for name in profile.cluster] + [f"hostname={name}" for name in profile.hostname]
        click.echo("  ".join(["*" if profile is sheet else " ", profile.name, profile.path, *when]))


@profile.command()
@click.argument("name", default="")
def show(name: str) -> None:
    """Show every value that a job starts with, and its origin."""
    job_settings = load.gather({"profile": name} if name else {}, "", os.environ, session.cwd(), str(Path.home()))
    for key, setting in job_settings.settings.items():
        for value, origin in _parts(setting):
            if key == "env":  # values may be secrets
                origin = variables.reason(job_settings.whys.get(value, ""), origin)
                value = value.partition("=")[0]
            click.echo(f"{key} = {value}    # {origin}")
    for warning in job_settings.warnings:
        Screen().warn(warning)


def _parts(setting: Setting) -> tuple[tuple[str, str], ...]:
    """Return (value as text, origin), for each word of a list."""
    if isinstance(setting.value, tuple):
        return tuple((word, str(origin)) for word, origin in setting.words)
    text = str(setting.value)
    return ((text.lower() if isinstance(setting.value, bool) else text, str(setting.origin)),)


@profile.command()
def schema() -> None:
    """Print the JSON Schema of job files, for editors."""
    click.echo(docs.schema(), nl=False)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the lines that make SHELL complete mnrun's options: `eval "$(mnrun completion bash)"`."""
    from click.shell_completion import get_completion_class

    from mnrun.cli import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main.main, {}, "mnrun", "_MNRUN_COMPLETE").source())

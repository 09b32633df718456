"""`mnrun import`, `profile` and `completion`: set up mnrun for a person."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from mnrun.cli import complete
from mnrun.cli.words.help import Verbs
from mnrun.errors import SchedulerError, UsageError

if TYPE_CHECKING:
    from mnrun.config.layers import Setting


@click.command("import")
@click.argument("file")
def import_(file: str) -> None:
    """Print the job file of an MPIJob, a Job or a Pod in FILE. What a job file cannot say is listed."""
    from mnrun.running import submission
    from mnrun.system import paths
    from mnrun.system.screen import Screen

    try:
        text = paths.text(file)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    page, left = submission.imported(text, file)
    click.echo(page, nl=False)
    for field in left:
        Screen().warn(f"{file}: {field} is not in the job file")


@click.group(cls=Verbs, invoke_without_command=True)
@click.pass_context
def profile(context: click.Context) -> None:
    """Show the values that this site and you have set for every job."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@profile.command("list")
def list_() -> None:
    """List the profiles. A `*` marks the one that is used here."""
    from mnrun.config import load, profiles
    from mnrun.system.screen import Screen

    files = load.find(os.environ, os.path.expanduser("~"))
    for warning in files.warnings:
        Screen().warn(warning)
    sheet = None
    try:
        sheet = load.usual(files, os.environ)
    except (SchedulerError, profiles.TwoMatchError) as error:
        Screen().warn(str(error))
    if not files.profiles:
        Screen().say("no profiles: mnrun uses NAME.toml in /etc/mnrun/profiles and ~/.config/mnrun/profiles")
    for profile in files.profiles:
        when = [f"cluster={name}" for name in profile.cluster] + [f"hostname={name}" for name in profile.hostname]
        click.echo("  ".join(["*" if profile is sheet else " ", profile.name, profile.path, *when]))


@profile.command()
@click.argument("name", default="", shell_complete=complete.profiles)
def show(name: str) -> None:
    """Show every value that a job starts with, and its origin."""
    from mnrun.cli.init import gathered
    from mnrun.config import profiles
    from mnrun.planning import variables
    from mnrun.system.screen import Screen

    job_settings = gathered({"profile": name} if name else {})
    names = {option: f"site.{key}" for key, option in profiles.SITE_KEYS.items()}  # as a profile has them
    for key, setting in job_settings.settings.items():
        for value, origin in _parts(setting):
            if key == "env":  # values may be secrets
                origin = variables.reason(job_settings.whys.get(value, ""), origin)
                value = value.partition("=")[0]
            click.echo(f"{names.get(key, key)} = {value}    # {origin}")
    for scheduler, own in job_settings.own.items():
        for key, text in own.items():
            click.echo(f"{scheduler}.{key} = {text}    # settings of the site")
    for warning in job_settings.warnings:
        Screen().warn(warning)


def _parts(setting: Setting) -> tuple[tuple[str, str], ...]:
    if isinstance(setting.value, tuple):
        return tuple((word, str(origin)) for word, origin in setting.words)
    text = str(setting.value)
    return ((text.lower() if isinstance(setting.value, bool) else text, str(setting.origin)),)


@profile.command()
def schema() -> None:
    """Print the JSON Schema of job files, for editors."""
    from mnrun.config import docs

    click.echo(docs.schema(), nl=False)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the lines that make SHELL complete options, jobs, nodes and more: `eval "$(mnrun completion bash)"`."""
    from click.shell_completion import get_completion_class

    from mnrun.cli import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main.main, {}, "mnrun", "_MNRUN_COMPLETE").source())

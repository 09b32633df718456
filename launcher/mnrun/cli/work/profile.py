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
    if not shelf.profiles:
        Screen().say("no profiles: mnrun uses NAME.toml in /etc/mnrun/profiles and ~/.config/mnrun/profiles")
    for profile in shelf.profiles:
        when = [f"cluster={name}" for name in profile.cluster] + [f"hostname={name}" for name in profile.hostname]
        click.echo("  ".join(["*" if profile is sheet else " ", profile.name, profile.path, *when]))


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


def schema() -> None:
    """Print the JSON Schema of job files, for editors."""
    click.echo(docs.schema(), nl=False)

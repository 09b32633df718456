"""`mnrun profile learn`: a few nodes of each partition are asked for their networks and adapters."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from mnrun.config import load, profiles
from mnrun.errors import LaunchError, SchedulerError, UsageError
from mnrun.network import learned
from mnrun.network.learned import Found
from mnrun.nodes import kit
from mnrun.schedulers.slurm import cluster
from mnrun.system.screen import Screen

NODES = 4  # of a partition: what they have in common holds for all


@click.command()
@click.option("-p", "--partition", "only", multiple=True, metavar="NAME", help="This partition alone; may be repeated.")
@click.option("--name", metavar="NAME", help="The profile's; else the cluster's.")
@click.option("--slurm", multiple=True, metavar="OPTION", help="A long option of srun: --slurm account=x.")
@click.option("--replace", is_flag=True, help="Write over a profile of that name.")
@click.option("--dry-run", is_flag=True, help="Print the profile, and write nothing.")
def learn(only: tuple[str, ...], name: str | None, slurm: tuple[str, ...], replace: bool, dry_run: bool) -> None:
    """Write a profile of the networks and adapters of the nodes, for batch jobs: one short job in each partition."""
    here = cluster.name(os.environ)
    if not here:
        raise SchedulerError("sbatch is not on PATH", "learn where Slurm is; a live run needs no profile")
    title = name or here
    path = load.own_profiles(os.environ, str(Path.home())) / f"{title}.toml"
    if not profiles.NAMED.match(title):
        raise UsageError(f"--name {title!r} is no name of a profile", "letters, digits, dots and dashes")
    if path.exists() and not (replace or dry_run):
        raise UsageError(f"{path} exists", "--replace writes over it; --name gives another; --dry-run only prints")
    screen = Screen()
    there = cluster.partitions(os.environ)
    unknown = set(only) - set(there)
    if unknown:
        raise UsageError(f"there is no partition {', '.join(sorted(unknown))}", f"there is {', '.join(there)}")
    found = [one for partition in only or there for one in _asked(partition, there[partition].nodes, slurm, screen)]
    if not found:
        raise SchedulerError(
            "no partition's nodes could be asked", "name one, and what its jobs need: -p NAME --slurm OPTION"
        )
    for one in found:
        for line in one.lines:
            click.echo(line, err=dry_run)
    default = next((partition for partition, what in there.items() if what.default), "")
    text = learned.profile(found, default, _match(title, here, screen), time.strftime("%Y-%m-%d %H:%M"))
    if dry_run:
        click.echo(text, nl=False)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    click.echo(path)


def _asked(partition: str, nodes: int, words: tuple[str, ...], screen: Screen) -> list[Found]:
    screen.say(f"asking {min(nodes, NODES)} nodes of partition {partition}")
    try:
        said = cluster.in_partition(partition, min(nodes, NODES), words, ("bash", "-p", "-c", kit.asking()), os.environ)
    except LaunchError as error:
        screen.warn(f"partition {partition} is left out: {error}")
        return []
    found = learned.heard(partition, said)
    return [found] if found else []


def _match(title: str, here: str, screen: Screen) -> str:
    """The cluster by which it is chosen, unless another is chosen already: two that match are refused."""
    shelf = load.find(os.environ, str(Path.home()))
    try:
        other = load.usual(shelf, os.environ)
    except UsageError:
        return ""
    if other is None or other.name == title:
        return here
    screen.warn(f"profile {other.name} ({other.path}) is chosen here: copy the tables there, or say --profile {title}")
    return ""

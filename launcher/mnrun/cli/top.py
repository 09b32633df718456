"""`mnrun top`: show what a running job uses, now and at intervals."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mnrun.cli import complete
from mnrun.cli.jobs import known
from mnrun.cli.parsing import job_dir_option, json_option, print_json, print_text
from mnrun.errors import UsageError

if TYPE_CHECKING:
    from mnrun.jobs.launches import LaunchRecord
    from mnrun.watching.now import Now


@click.command()
@click.argument("identity", metavar="[ID]", default="", callback=known, shell_complete=complete.running)
@click.option(
    "--every",
    type=click.IntRange(1, 3600),
    metavar="SECONDS",
    default=2,
    help="Seconds between two samples.  [default: 2]",
)
@click.option("--once", is_flag=True, help="Show it once, and end.")
@click.option(
    "--metrics",
    "where",
    metavar="FILE.prom|[ADDRESS]:PORT",
    default="",
    help="Give it to Prometheus: in a file of node_exporter, or at a port.",
)
@json_option
@job_dir_option
def top(identity: str, every: int, once: bool, where: str, as_json: bool, job_dir: str | None) -> None:
    """Show what a running job uses on each node: CPUs, memory, networks and GPUs. What is odd comes first.

    Odd are an idle GPU while others work, a hot GPU, a rank without CPU time, and memory near its limit. Without an ID,
    the job is your only one that runs. Ctrl-C ends it.
    """
    from mnrun import versioned
    from mnrun.attach import meant, sampling, target, user
    from mnrun.schedulers import SCHEDULERS
    from mnrun.system import screen
    from mnrun.watching import now

    if where and as_json:
        raise UsageError("--metrics and --json together", "choose one")
    bases = user.bases(job_dir)
    launch = target.entered(meant.running(identity, bases), bases, os.environ)
    environ = SCHEDULERS[launch.scheduler].client_environment(os.environ)
    seen = now.Now(launch.nodes, launch.gpus)
    ticks = sampling.ticks(launch, every, environ, seen)
    try:
        if where:
            _give(where, launch, ticks, seen, once)
        elif once:
            next(ticks, None)
            if as_json:
                print_json(now.Use(launch.name, tuple(seen.uses())))
            else:
                screen.table(*now.table(seen.uses(), screen.width()))
        elif sys.stdout.isatty() and not as_json:
            with screen.Board(lambda header, word: "yellow" if header == "ODD" else "") as board:
                for _ in ticks:
                    board.show(*now.table(seen.uses(), screen.width()))
        else:
            for number, _ in enumerate(ticks):
                if not number and not as_json:
                    screen.Screen().say(
                        f"a line for each node, each {every} s until the job ends; --once shows a table"
                    )
                if as_json:  # a line for each, as programs read them
                    click.echo(versioned.text(now.Use(launch.name, tuple(seen.uses()))), nl=False)
                for use in () if as_json else seen.uses():
                    print_text(f"{time.strftime('%H:%M:%S')} {now.line(use)}")
                sys.stdout.flush()
    finally:
        ticks.close()
    if not once:
        screen.Screen().say(f"job {launch.name} has ended")


def _give(where: str, launch: LaunchRecord, ticks: Iterator[None], seen: Now, once: bool) -> None:
    """Give each tick to Prometheus. A file that is written once stays, and else it goes with the job."""
    import getpass

    from mnrun.schedulers.vocabulary import is_id
    from mnrun.system.signals import cleaning_up
    from mnrun.watching import exporter, metrics

    identity = launch.number if is_id(launch.number) else launch.job
    job = metrics.Job(identity, getpass.getuser(), launch.title, launch.nodes)
    with cleaning_up(), exporter.given(where, stays=once) as give:
        for _ in ticks:
            give(metrics.used(job, seen.last))
            if once:
                break

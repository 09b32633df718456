"""`mnrun why` shows where the ranks of a running job stand, or how a job has ended. `mnrun report` shows all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from mnrun.cli import complete
from mnrun.cli.jobs import known
from mnrun.cli.parsing import job_dir_option, json_option, print_json, print_text
from mnrun.errors import LaunchError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from mnrun.attach.history import EndedJob
    from mnrun.attach.standing import RankState
    from mnrun.jobs.launches import LaunchRecord
    from mnrun.jobs.records import JobRecord

SPY = "~/spy/bin/py-spy"
INSTALL = "python3 -m venv ~/spy && ~/spy/bin/pip install py-spy"


@click.command()
@click.argument("identity", metavar="[ID]", default="", callback=known, shell_complete=complete.jobs)
@json_option
@job_dir_option
def why(identity: str, as_json: bool, job_dir: str | None) -> None:
    """Show where each rank of a running job stands: its state, its CPU time, and its stack by py-spy or gdb.

    Of a job that has ended, it shows how. Without an ID, it takes your only running job. If none runs, it takes the
    last job that you have submitted, or a live run that has failed after that.
    """
    from pathlib import Path

    from mnrun.attach import history, meant, target, user
    from mnrun.jobs import archive, launches
    from mnrun.system.screen import Screen

    bases = user.bases(job_dir)
    if identity:
        (identity,) = meant.jobs([identity], bases, "why", Screen().say)
    elif not target.entered_by("", bases, os.environ):
        with suppress(UsageError):  # nothing was submitted either
            identity = meant.last(bases, "why", Screen().say)
    by_id = archive.read(bases, [identity]) if identity else {}
    target.no_array(identity, by_id)
    record = by_id.get(identity) or target.without_start(identity, bases)
    if record is not None and not _runs(identity, bases):
        _tell_end(record, as_json)
        return
    kept = launches.kept(bases, identity) if identity else []
    try:
        launch = target.launch(identity, bases, os.environ)
    except LaunchError:
        end = archive.live_ends(Path.home()).get(identity)
        if len(kept) == 1:
            _show(history.of_kept(kept[0]), as_json)
        elif end is not None:
            _show(history.of_live(identity, end), as_json)
            if not as_json:
                print_text(
                    "a live run: its output went to its terminal; with --keep, mnrun why shows more of the next one"
                )
        else:
            raise
        return
    _tell_standing(launch, as_json)


def _runs(identity: str, bases: Sequence[Path]) -> bool:
    """Return whether a launch of this job runs. A job that was killed hard has left no record of its end."""
    from mnrun.jobs import launches
    from mnrun.schedulers import SCHEDULERS

    own = [launch for launch in launches.running(bases) if launch.has(identity)]
    return any(SCHEDULERS[launch.scheduler].runs(launch.number, os.environ) for launch in own)


def _tell_standing(launch: LaunchRecord, as_json: bool) -> None:
    from pathlib import Path

    from mnrun.attach import standing, target
    from mnrun.attach.standing import RankState, Running
    from mnrun.jobs import archive
    from mnrun.nodeset import counted
    from mnrun.schedulers import SCHEDULERS
    from mnrun.system.screen import Screen, table

    environ = SCHEDULERS[launch.scheduler].client_environment(os.environ)
    states, complaints = standing.standing(launch, environ)
    for complaint in complaints:
        Screen().warn(complaint)
    networks = archive.text(Path(launch.folder), "fabric").splitlines()
    found, answered = {one.rank for one in states}, {one.node for one in states}
    others = {rank: node for rank, node in target.ranks(launch).items() if rank not in found}
    states += [RankState(rank, node, silent=node not in answered) for rank, node in others.items()]
    if as_json:
        print_json(Running(launch.name, "RUNNING", tuple(states), tuple(networks)))
        return
    print_text(f"job {launch.name} runs on {counted(len(launch.nodes), 'node')}; CPU is of one second")
    table(("RANK", "NODE", "PID", "STATE", "CPU", "WAITS IN", "PROGRAM"), [_row(one) for one in states])
    for stack, members in standing.alike(states).items():
        print_text(f"\nstack of {_ranks(members)}:")
        for line in stack:
            print_text(f"  {line}")
    if not any(one.state for one in states):
        print_text("\nno program of a rank was seen: the ranks are starting or ending, so ask again in a moment")
    elif not any(one.stack for one in states):
        seen = next(one for one in states if one.state)  # others may have ended
        words = f"mnrun exec {launch.name} --rank {seen.rank} -- sh -c '{SPY} dump --pid $MNRUN_RANK_PID'"
        signal = f"mnrun cancel -s USR1 {launch.script or launch.name}"
        print_text("\nno stacks: no py-spy or gdb, of the image or of a node, can read these programs")
        print_text(f"for Python, install py-spy in your home directory: {INSTALL}")
        print_text(f"then: {words}")
        print_text(f"without internet: faulthandler.register(signal.SIGUSR1) in the program, then {signal}")
    for line in networks:
        print_text(f"network: {line}")


def _row(one: RankState) -> tuple[str, ...]:
    if not one.state:
        return (str(one.rank), one.node, "", one.words, "", "", "")
    return (str(one.rank), one.node, str(one.pid), one.words, f"{one.cpu} %", one.place, one.program[:60])


def _ranks(members: Sequence[RankState]) -> str:
    numbers = list(dict.fromkeys(one.rank for one in members))
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(map(str, numbers))}"


def _tell_end(record: JobRecord, as_json: bool) -> None:
    from mnrun.attach import history, output, target, user
    from mnrun.jobs import archive, asking

    views, _, _ = asking.views([record.id], {record.id: record}, partial(user.queue, "", [record.id]))
    if len(views) != 1:
        raise target.array(record.id, [view.id for view in views])
    lines = output.last_lines(record)
    files = archive.rank_files(record.begun.split_output) if record.begun and record.begun.split_output else {}
    _show(history.ended(views[0], archive.last_start(record), lines, files), as_json)


def _show(end: EndedJob, as_json: bool) -> None:
    from mnrun.jobs import state

    if as_json:
        print_json(end)
        return
    print_text(state.line(end.job, end.state, end.code, end.why))
    if end.first is not None:
        print_text(f"rank {end.first.rank} on {end.first.node} failed first, with code {end.first.code}")
    if end.cause and end.cause.partition(";")[0] not in end.why:
        print_text(f"cause: {end.cause}")
    if end.summary:
        print_text(end.summary)
    if end.used is not None:
        print_text(str(end.used))
    if end.output and end.of_rank and end.first is not None:
        print_text(f"the last lines of rank {end.first.rank} on {end.first.node}:")
    elif end.output:
        print_text("last lines of its output:")
    for line in end.output:
        print_text(f"  {line}")


@click.command()
@click.argument("name", metavar="[ID|FILE]", default="", shell_complete=complete.jobs)
@click.option("--html", "as_html", is_flag=True, help="Print one page of HTML with charts, which needs no other file.")
@json_option
@job_dir_option
def report(name: str, as_html: bool, as_json: bool, job_dir: str | None) -> None:
    """Show a job: its command, image, times, nodes and end, and with --watch what it used. Then show how many seconds
    each phase of its launch took, and on which nodes it took longest.

    It takes a job's ID, the name of a live run with --keep, or a FILE that --timeline has written. Without a word, the
    job is the last one that you have submitted. Of a script that starts mnrun several times, the last launch counts.
    """
    from mnrun.attach import reported, user
    from mnrun.jobs import about, page, timeline
    from mnrun.nodeset import counted
    from mnrun.system.screen import Screen, table
    from mnrun.watching import series

    found = reported.of(name, user.bases(job_dir), Screen().say)
    if as_json:
        print_json(about.report(found.times, found.about))
        return
    if as_html:
        click.echo(page.html(found.times, found.samples, found.about), nl=False)
        return
    if found.about is not None:
        print_text(found.about.line())
        print_text("\n".join(f"{word:<12}{value}" for word, value in about.rows(found.about)))
    if rows := series.rows(series.read_all(found.samples)):
        print_text("")
        table(("METRIC", "MEAN", "LEAST", "MOST"), rows)
    if found.times is None:
        print_text("no times: mnrun records them at the end of a launch")
        return
    print_text(f"\nlaunch {found.times.job}: {counted(len(found.times.nodes), 'node')}, {found.times.whole:.3f} s")
    table(("PHASE", *(f"{level} %" for level in timeline.LEVELS), "SLOWEST"), timeline.rows(found.times))
    print_text(timeline.LEGEND)

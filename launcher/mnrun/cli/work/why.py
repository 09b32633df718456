"""`mnrun why` shows where the ranks of a running job stand, or how a job has ended. `mnrun report` shows its times."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from mnrun import environment
from mnrun.attach import history, standing, target
from mnrun.attach.standing import RankState, Running
from mnrun.cli.parsing import print_json, print_text
from mnrun.cli.work.jobs import bases_of, user_queue
from mnrun.errors import LaunchError, UsageError
from mnrun.jobs import archive, asking, launches, page, records, state, timeline
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import JobRecord
from mnrun.jobs.timeline import Timeline
from mnrun.nodeset import counted
from mnrun.schedulers import SCHEDULERS
from mnrun.system.screen import Screen, table

SPY = "~/spy/bin/py-spy"
INSTALL = "python3 -m venv ~/spy && ~/spy/bin/pip install py-spy"


def why(identity: str, as_json: bool, job_dir: str | None) -> None:
    """Show where each rank of a running job stands: its state, its CPU time, and its stack by py-spy or gdb."""
    if identity and not launches.is_name(identity):
        raise UsageError(f"{identity!r} is not the ID of a job", "write 123, or 123_4 for a task of an array")
    bases = bases_of(job_dir)
    by_id = archive.read(bases, [identity]) if identity else {}
    target.no_array(identity, by_id)
    record = by_id.get(identity) or target.without_start(identity, bases)
    if record is not None and not _runs(identity, bases):
        _tell_end(record, as_json)
        return
    kept = launches.kept(bases, identity) if identity else []
    try:
        launch = target.launch(identity, bases)
    except LaunchError:
        if len(kept) != 1:
            raise
        _show(history.of_kept(kept[0]), as_json)
        return
    _tell_standing(launch, as_json)


def _runs(identity: str, bases: Sequence[Path]) -> bool:
    """Return whether a launch of this job runs. A job that was killed hard has left no record of its end."""
    own = [launch for launch in launches.running(bases) if launch.has(identity)]
    return any(SCHEDULERS[launch.scheduler].runs(launch.number) for launch in own)


def _tell_standing(launch: LaunchRecord, as_json: bool) -> None:
    states, complaints = standing.standing(launch, environment.for_srun(os.environ))
    for complaint in complaints:
        Screen().warn(complaint)
    networks = standing.networks(launch)
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
    if states and not any(one.stack for one in states):
        print_text("\nno stacks: neither the image nor a node has py-spy or gdb that may look at these programs")
        words = f"mnrun exec {launch.name} --rank {states[0].rank} -- sh -c '{SPY} dump --pid $MNRUN_RANK_PID'"
        print_text(f"for Python, install py-spy in your home directory: {INSTALL}")
        print_text(f"then: {words}")
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
    """Tell the end of a submitted job, and its cause if its output names one that is known."""
    views, _, _ = asking.views([record.id], {record.id: record}, user_queue)
    if len(views) != 1:
        raise target.array(record.id, [view.id for view in views])
    _show(
        history.ended(views[0], archive.last_start(record), history.last_lines(record, os.environ.get("USER", ""))),
        as_json,
    )


def _show(end: history.EndedJob, as_json: bool) -> None:
    if as_json:
        print_json(end)
        return
    code = "" if end.code is None else f", with code {end.code}"
    print_text(f"job {end.job}: {state.words(end.state)}{code}{f': {end.why}' if end.why else ''}")
    if end.first is not None:
        print_text(f"rank {end.first.rank} on {end.first.node} failed first, with code {end.first.code}")
    if end.cause and end.cause.partition(";")[0] not in end.why:
        print_text(f"cause: {end.cause}")
    if end.summary:
        print_text(end.summary)
    if end.output:
        print_text("last lines of its output:")
    for line in end.output:
        print_text(f"  {line}")


def report(name: str, as_html: bool, as_json: bool, job_dir: str | None) -> None:
    """Show where the time of a launch went: the seconds of each phase, and the slowest nodes."""
    found = _timeline(name, bases_of(job_dir))
    if as_json:
        print_json(timeline.trace(found))
    elif as_html:
        click.echo(page.html(found), nl=False)
    else:
        print_text(f"launch {found.job}: {counted(len(found.nodes), 'node')}, {found.whole:.3f} s")
        table(("PHASE", *(f"{level} %" for level in timeline.LEVELS), "SLOWEST"), timeline.rows(found))
        print_text(timeline.LEGEND)


def _timeline(name: str, bases: Sequence[Path]) -> Timeline:
    """Return the timeline of a job's last start, or of a file."""
    if records.is_id(name):
        by_id = archive.read(bases, [name])
        target.no_array(name, by_id)
        record = by_id.get(name)
        if record is None:
            raise target.absence(name, bases)
        if record.restart < 0 and record.submitted is not None and record.submitted.own:
            problem = f"job {name} has no timeline, since its script goes on after mnrun"
            raise UsageError(problem, "end the script with exec mnrun, or write a file with --timeline")
        path = archive.last_start(record) / records.TIMELINE
        found = timeline.parse(archive.text(path.parent, path.name))
        remedy = "mnrun writes it when the job has ended"
    else:
        path, remedy = Path(name), "name a job's ID, or a file that --timeline has written"
        found = timeline.parse(_text(path))
    if found is None:
        raise UsageError(f"there is no timeline in {path}", remedy)
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


__all__ = ["report", "why"]

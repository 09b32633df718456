"""Choose the running launch and the node that a command enters, and build the commands that enter it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mnrun import nodeset
from mnrun.attach import user
from mnrun.errors import LaunchError, NodeError, SchedulerError, UsageError
from mnrun.jobs import archive, asking, launches
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import JobRecord, Submitted
from mnrun.model import Command, Words
from mnrun.nodes import kit
from mnrun.record import Record
from mnrun.schedulers import SCHEDULERS
from mnrun.schedulers.vocabulary import ClientLines, JobId, StepPlace, is_id, job_of
from mnrun.system import client


def launch(identity: str, bases: Sequence[Path], environ: Mapping[str, str]) -> LaunchRecord:
    """Return the running launch of this id, or the only one if `identity` is "". Raises LaunchError.

    A run with --local on another machine counts only by its id.
    """
    found = entered_by(identity, bases, environ)
    if len(found) == 1:
        if found[0].away:
            raise UsageError(f"job {identity} runs on {found[0].nodes[0]} without a scheduler", "enter it there")
        return found[0]
    names = ", ".join(one.job if identity else one.name for one in found)
    if found and identity:
        raise UsageError(f"job {identity} has {len(found)} launches", f"name one of {names}")
    if found:
        raise UsageError(f"{len(found)} jobs of yours run", f"name one of {names}")
    if not identity:
        problem = f"no job of yours runs now, by the records in {archive.named(bases)}"
        raise UsageError(problem, "mnrun status shows jobs that have ended; --job-dir names another place for records")
    raise absence(identity, bases)


def entered_by(identity: str, bases: Sequence[Path], environ: Mapping[str, str]) -> list[LaunchRecord]:
    """Return the running launches of this id, or all that can be entered if it is "". One that was killed hard has left
    no record of its end, and its scheduler knows."""
    found = [one for one in launches.running(bases, identity) if identity or not (one.away or one.beside)]
    return [one for one in found if SCHEDULERS[one.scheduler].runs(one.number, environ)]


def no_array(identity: str, by_id: Mapping[str, JobRecord]) -> None:
    """Raise UsageError if `identity` is an array, whose tasks are jobs of their own. `by_id`: archive.read of it."""
    if names := tasks(identity, by_id):
        raise array(identity, names)


def tasks(identity: str, by_id: Mapping[str, JobRecord]) -> list[str]:
    """Return the tasks of an array that have left records, or [] for another job. `by_id`: archive.read of it."""
    whole = identity in by_id and by_id[identity].begun is not None
    return [] if whole else [name for name in by_id if name != identity]


def array(identity: str, tasks: Sequence[str]) -> UsageError:
    return UsageError(f"job {identity} is an array", f"name one of its tasks: {', '.join(tasks[:4])}")


def without_start(identity: str, bases: Sequence[Path]) -> JobRecord | None:
    """Return the record, by the scheduler's word, of a job that has left none: of a task that waits, or whose setup
    lines run, or of a batch script of the user's own. Raises UsageError for an array of scripts."""
    trace = asking.trace(identity)
    if trace is None or trace.owner:
        return None
    whole, task = JobId.of(identity)
    for base in bases if task else ():
        request = archive.request(base / whole)
        if request is not None:
            return JobRecord(identity, request, folder=str(base / identity))
    if not trace.output:
        return None
    if trace.tasks:
        raise array(identity, trace.tasks)
    request = Submitted(whole, output=trace.output, error=trace.error, own=True)
    return JobRecord(identity, request, folder=str(bases[0] / identity))


def absence(identity: str, bases: Sequence[Path]) -> LaunchError:
    record = archive.read(bases, [identity]).get(identity) if is_id(identity) else None
    if record is None:
        return _without_records(identity, bases)
    if record.ended is not None:
        return UsageError(f"job {identity} has ended, with code {record.ended.code}", f"see mnrun why {identity}")
    if record.begun is None:
        return UsageError(f"job {identity} has not begun", f"see mnrun status {identity}")
    return UsageError(f"job {identity} does not run", f"see mnrun status {identity}")


def _without_records(identity: str, bases: Sequence[Path]) -> LaunchError:
    """Return the error for a job without records: a live run, or a batch script with a plain line of mnrun."""
    trace = asking.trace(job_of(identity))
    only = "only mnrun submit, and runs with --keep, leave records"
    if trace is None or trace.owner:
        return asking.unknown([identity], bases)
    if trace.active:
        return UsageError(f"mnrun runs nothing in job {identity} now", f"see mnrun status {identity}")
    where = f"its output is in {trace.output}" if trace.output else "its messages went to its terminal"
    return UsageError(f"job {identity} has ended, and left no records: {only}", where)


def ranks(target: LaunchRecord) -> dict[int, str]:
    by_node = archive.started(Path(target.folder))
    return dict(sorted((rank, name) for name, numbers in by_node.items() for rank in numbers))


def node(target: LaunchRecord, rank: int | None, name: str, environ: Mapping[str, str]) -> str:
    """Return the node of a rank, or the named node, or else the first one. Raises UsageError or NodeError."""
    if rank is None:
        chosen = name or target.nodes[0]
        if chosen not in target.nodes:
            problem = f"job {target.name} has no node {chosen}"
            raise UsageError(problem, f"its nodes are {nodeset.fold(target.nodes)}")
    else:
        started = ranks(target)
        if rank not in started:
            problem = f"job {target.name} has no rank {rank}" + ("" if started else " yet")
            raise UsageError(problem, f"its ranks are {_numbers(started)}" if started else "no rank has started")
        chosen = started[rank]
    state = SCHEDULERS[target.scheduler].lost([chosen], environ).get(chosen)
    if state is not None and state.dead:
        problem = f"no command can start on {nodeset.folded({chosen: state.words})}"
        raise NodeError(problem, "choose another with --node")
    return chosen


def _numbers(numbers: Collection[int]) -> str:
    whole = list(range(min(numbers), max(numbers) + 1))
    if sorted(numbers) == whole and len(whole) > 1:
        return f"{whole[0]}-{whole[-1]}"
    return ", ".join(map(str, sorted(numbers)))


def on_nodes(
    target: LaunchRecord,
    nodes: Sequence[str],
    words: Words,
    terminal: bool = False,
    whole_lines: bool = True,
    marked: bool = True,
) -> list[Command]:
    """Return the commands that run `words` on these nodes. `marked`, they carry the job's mark from their first process
    on, by which the guard ends them with the job. Without `whole_lines`, no output waits for the end of a line."""
    gpus = {target.gpus.get(name, 0) for name in nodes}
    place = StepPlace(
        job=target.number,
        nodes=tuple(nodes),
        gpus=gpus.pop() if len(gpus) == 1 else 0,
        binds=target.binds,
        user=target.ssh_user,
        port=target.ssh_port,
        terminal=terminal,
        whole_lines=whole_lines,
    )
    mark = ("env", f"MNRUN_JOB_ID={target.job}") if marked else ()
    return SCHEDULERS[target.scheduler].beside(place, (*mark, *words))


class Entry(Record):
    """A command in a container of a job, for system/client.py."""

    node: str
    command: Command
    environ: Mapping[str, str]
    lines: ClientLines


def entry(
    identity: str,
    bases: Sequence[Path],
    environ: Mapping[str, str],
    rank: int | None,
    name: str,
    words: Words,
    terminal: bool = False,
) -> Entry:
    """Return the command that runs `words` in the container of a rank, or of the node of this name. Raises
    LaunchError."""
    if identity and not launches.running(bases, identity):
        its = user.scheduler("", [identity])
        if inside := its.inside(identity, rank, name, words, environ, terminal):
            return Entry(name, inside, its.client_environment(environ), its.CLIENT_LINES)
    found = entered(identity, bases, environ)
    return _entry(found, node(found, rank, name, environ), rank, words, environ, terminal)


def entered(identity: str, bases: Sequence[Path], environ: Mapping[str, str]) -> LaunchRecord:
    """Return the launch that a command enters. Raises LaunchError."""
    if is_id(identity):  # Slurm may give a task of an array the array's own number
        no_array(identity, archive.read(bases, [identity]))
    return launch(identity, bases, environ)


def _entry(
    found: LaunchRecord,
    place: str,
    rank: int | None,
    words: Words,
    environ: Mapping[str, str],
    terminal: bool = False,
) -> Entry:
    inner = kit.enter(found.node_dir, "" if rank is None else str(rank), words)  # without a rank, the node's first one
    scheduler = SCHEDULERS[found.scheduler]
    command = on_nodes(found, [place], inner, terminal)[0]
    return Entry(place, command, scheduler.client_environment(environ), scheduler.CLIENT_LINES)


def entries(found: LaunchRecord, numbers: Sequence[int], words: Words, environ: Mapping[str, str]) -> dict[str, Entry]:
    """Return the commands that run `words` for each of these ranks, or else on each node, by the name of the rank or
    node. Raises LaunchError."""
    if numbers:
        return {str(rank): _entry(found, node(found, rank, "", environ), rank, words, environ) for rank in numbers}
    return {name: _entry(found, name, None, words, environ) for name in found.nodes}


def send(target: LaunchRecord, signal: str, environ: Mapping[str, str]) -> None:
    """Send a signal to the launcher of a launch, which hands it on to the program. Raises SchedulerError."""
    pid, host = launches.launcher(Path(target.folder))
    words = ("sh", "-c", 'kill -s "$0" "$1"', signal, pid)
    scheduler = SCHEDULERS[target.scheduler]
    told = scheduler.client_environment(environ)
    if not pid or client.run(on_nodes(target, [host], words)[0], told, scheduler.CLIENT_LINES.own):
        raise SchedulerError(f"job {target.name}: {signal} could not be sent", f"see mnrun status {target.name}")

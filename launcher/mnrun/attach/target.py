"""Choose the running launch and the node that a command enters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mnrun import nodeset
from mnrun.errors import LaunchError, NodeError, UsageError
from mnrun.jobs import archive, asking, launches, records
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import JobRecord, Submitted
from mnrun.schedulers import SCHEDULERS


def launch(identity: str, bases: Sequence[Path]) -> LaunchRecord:
    """Return the running launch of this id, or the only one if `identity` is "". Raises LaunchError.

    A run with --local on another machine counts only by its id.
    """
    found = [one for one in launches.running(bases, identity) if identity or not one.away]
    found = [one for one in found if SCHEDULERS[one.scheduler].runs(one.number)]
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


def no_array(identity: str, by_id: Mapping[str, JobRecord]) -> None:
    """Raise UsageError if `identity` is an array, whose tasks are jobs of their own. `by_id`: archive.read of it."""
    tasks = [name for name in by_id if name != identity]
    if tasks and (identity not in by_id or by_id[identity].begun is None):
        raise array(identity, tasks)


def array(identity: str, tasks: Sequence[str]) -> UsageError:
    """Return the error for an array in place of a job."""
    return UsageError(f"job {identity} is an array", f"name one of its tasks: {', '.join(tasks[:4])}")


def without_start(identity: str, bases: Sequence[Path]) -> JobRecord | None:
    """Return a record of a job that has left none, by the scheduler's word.

    It is a task that waits, or whose setup lines run, with the request of its array. Or it is a batch script of the
    user's own. The result is None for other jobs. Raises UsageError for an array of scripts.
    """
    trace = asking.trace(identity)
    if trace is None or trace.owner:
        return None
    whole, _, task = identity.partition("_")
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
    """Return the error for a job without a launch that runs."""
    record = _record(identity, bases)
    if record is None:
        return _without_records(identity, bases)
    if record.ended is not None:
        return UsageError(f"job {identity} has ended, with code {record.ended.code}", f"see mnrun why {identity}")
    if record.begun is None:
        return UsageError(f"job {identity} has not begun", f"see mnrun status {identity}")
    return UsageError(f"job {identity} does not run", f"see mnrun status {identity}")


def _without_records(identity: str, bases: Sequence[Path]) -> LaunchError:
    """Return the error for a job without records: a live run, or a batch script with a plain line of mnrun."""
    trace = asking.trace(identity.partition("-")[0])
    only = "only mnrun submit, and runs with --keep, leave records"
    if trace is None or trace.owner:
        return asking.unknown([identity], bases)
    if trace.active:
        return UsageError(f"mnrun runs nothing in job {identity} now", f"see mnrun status {identity}")
    where = f"its output is in {trace.output}" if trace.output else "its messages went to its terminal"
    return UsageError(f"job {identity} has ended, and left no records: {only}", where)


def _record(identity: str, bases: Sequence[Path]) -> JobRecord | None:
    return archive.read(bases, [identity]).get(identity) if records.is_id(identity) else None


def ranks(target: LaunchRecord) -> dict[int, str]:
    """Return rank -> its node, for the ranks that have started."""
    by_node = archive.started(Path(target.folder))
    return dict(sorted((rank, name) for name, numbers in by_node.items() for rank in numbers))


def node(target: LaunchRecord, rank: int | None, name: str) -> str:
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
    refuse_down(target, [chosen])
    return chosen


def refuse_down(target: LaunchRecord, names: Sequence[str]) -> None:
    """Raise NodeError if the scheduler says that one of these nodes does not work."""
    down: Mapping[str, str] = SCHEDULERS[target.scheduler].why_down(names)
    dead = {name: state for name, state in down.items() if name in names and state.startswith(("down", "fail"))}
    if dead:
        raise NodeError(f"no command can start on {nodeset.folded(dead)}", "choose another with --node")


def _numbers(numbers: Collection[int]) -> str:
    """Return numbers for a message, as `0-7` if none is missing."""
    whole = list(range(min(numbers), max(numbers) + 1))
    if sorted(numbers) == whole and len(whole) > 1:
        return f"{whole[0]}-{whole[-1]}"
    return ", ".join(map(str, sorted(numbers)))

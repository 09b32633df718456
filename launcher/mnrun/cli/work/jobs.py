"""Follow submitted jobs: show, wait for and end them, and find their records."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from mnrun import nodeset
from mnrun.attach import target
from mnrun.cli.parsing import print_json
from mnrun.config import layers
from mnrun.errors import NotYours, SchedulerError, UsageError
from mnrun.jobs import archive, asking, launches, records, state
from mnrun.jobs.records import JobRecord
from mnrun.jobs.state import JobView
from mnrun.schedulers import at_hand
from mnrun.schedulers.model import span
from mnrun.schedulers.queue import Queue
from mnrun.system.screen import Screen, table

LOOK = 0.5  # seconds between two reads of the files


def status(ids: tuple[str, ...], as_json: bool, fresh: bool, job_dir: str | None) -> None:
    """Show jobs: their state, why they wait, where they run, and how they ended."""
    bases = bases_of(job_dir)
    submitted = [identity for identity in ids if records.is_id(identity) or not launches.is_name(identity)]
    _check(submitted)
    views, unknown, asked = _views(submitted, bases, fresh) if submitted or not ids else ([], [], 0.0)
    runs = asking.live(launches.live(bases), ids, views)
    views += runs
    unknown += [name for name in ids if name not in submitted and name not in {run.id for run in runs}]
    if as_json:
        print_json(state.Jobs(tuple(views), asked))
    elif views:
        table(("JOB", "NAME", "STATE", "NODES", "GPUS", "LEFT", "CODE", "WHY"), [_row(view) for view in views])
    elif not ids:
        Screen().say("no jobs of yours in the last 7 days")
    if asked and time.time() - asked > asking.SOON and not as_json:
        Screen().say(f"as of {time.strftime('%H:%M:%S', time.localtime(asked))}; --fresh asks Slurm again")
    if unknown:
        raise asking.unknown(unknown, bases)


def _views(ids: Sequence[str], bases: Sequence[Path], fresh: bool) -> tuple[list[JobView], list[str], float]:
    """Return what asking.views does, and without a scheduler here, what the records say."""
    changed = archive.changed(bases)  # before the records are read
    by_id = _read(bases, ids, time.time() - state.SHOWN)
    if ids or at_hand(os.environ).is_here():
        read = partial(_read, bases)
        return asking.views(ids, by_id, user_queue, read, changed=changed, fresh=fresh)
    return *state.gather(ids, (), (), by_id, time.time()), 0.0


def _row(view: JobView) -> tuple[str, ...]:
    time_left = span(view.left) if view.left is not None else "no limit" if view.state == "RUNNING" else ""
    return (
        view.id,
        view.name,
        view.words,
        view.nodelist or str(view.nodes or ""),
        str(view.gpus or ""),
        time_left,
        "" if view.code is None else str(view.code),
        view.why,
    )


def nodes(partition: str, as_json: bool) -> None:
    """Show partitions: what is free, and what their nodes have."""
    entries = user_queue().nodes()
    partitions = state.partitions(entries, partition)
    if not partitions:
        names = ", ".join(sorted({node.partition for node in entries}))
        raise UsageError(f"there is no partition {partition}", f"Slurm has {names}" if names else "Slurm shows none")
    if as_json:
        print_json(state.Partitions(tuple(partitions)))
        return
    rows = [row for partition in partitions for row in _kinds(partition)]
    table(("PARTITION", "LIMIT", "FREE NOW", "NODES", "CPUS", "MEM", "GPUS", "FEATURES", "TAKES NO JOBS"), rows)


def _kinds(partition: state.Partition) -> Iterator[tuple[str, ...]]:
    """Yield a row for each kind of nodes. The first one tells of the whole partition."""
    name = partition.name + ("*" if partition.default else "")
    first, last = (name, partition.limit, partition.words), "; ".join(partition.out)
    for kind in partition.kinds:
        yield (*first, *kind.columns, last)
        first, last = ("", "", ""), ""


def cancel(ids: tuple[str, ...], signal: str, job_dir: str | None) -> None:
    """End jobs, or send them a signal."""
    if not ids:
        raise UsageError("cancel needs the ID of a job", "mnrun status shows them")
    for identity in ids:
        if not re.fullmatch(r"[1-9]\d*(_(\d+|\[[\d,:-]+\]))?", identity, re.ASCII):
            raise UsageError(f"{identity!r} is not the ID of a job", "write 123, 123_4 or 123_[0-3]")
    scripts = _with_records(bases_of(job_dir), ids) if signal else []
    if scripts and not layers.passed(signal):
        problem = f"--signal {signal}: mnrun does not forward this signal to programs"
        raise UsageError(problem, f"use one of {', '.join(layers.PASSED)}, or end the job without -s")
    try:
        ended = user_queue().cancel(ids, signal, scripts)
    except NotYours as error:
        raise asking.unknown(error.ids, bases_of(job_dir)) from None
    for identity in dict.fromkeys((*ended, *ids)):
        done = "has ended already" if identity in ended else f"was sent {signal}" if signal else "was cancelled"
        Screen().say(f"job {identity} {done}")


def _with_records(bases: Sequence[Path], ids: Sequence[str]) -> list[str]:
    """Return the jobs that mnrun submit has handed in."""
    known = _read(bases, [identity.partition("_")[0] for identity in ids]).values()
    arrays = {record.array for record in known if record.submitted is None or not record.submitted.own}
    return [identity for identity in ids if identity.partition("_")[0] in arrays]


def wait(ids: tuple[str, ...], job_dir: str | None) -> None:
    """Wait until jobs have ended, and exit with the job's code, or the largest of several."""
    if not ids:
        raise UsageError("wait needs the ID of a job", "mnrun status shows them")
    _check(ids)
    from mnrun.jobs import waiting

    bases, queue, screen = bases_of(job_dir), user_queue(), Screen()
    code = waiting.wait(ids, bases, queue, screen.say)
    tell_ends(ids, bases, queue, screen)
    sys.exit(code)


def tell_ends(ids: Sequence[str], bases: Sequence[Path], queue: Queue, screen: Screen) -> int | None:
    """Show how jobs have ended, and return the largest of their codes, or None if nobody knows one."""
    try:
        views, unknown, _ = asking.views(ids, _read(bases, ids), lambda: queue)
    except SchedulerError:
        return None
    for view in views:
        screen.say(view.line)
    codes = [view.code for view in views if view.code is not None]
    return max(codes) if len(codes) == len(views) > 0 and not unknown else None


def logs(
    identity: str,
    following: bool,
    lines: int | None,
    rank: int | None,
    node: str,
    verbose: bool,
    exit_status: bool,
    job_dir: str | None,
) -> None:
    """Show the output of a job. It is read from files, so Slurm is seldom asked."""
    from mnrun.jobs.tail import Tail

    if not identity:
        raise UsageError("logs needs the ID of a job", "mnrun status shows them")
    _check([identity])
    if rank is not None and node:
        raise UsageError("--rank and --node together", "choose one")
    if exit_status and not following:
        raise UsageError("--exit-status without -f", "add -f, or use mnrun wait")
    bases = bases_of(job_dir)
    tails: dict[tuple[Path, bool], Tail] = {}
    first, record = True, None
    watch = _watch(identity, bases) if following else None
    while True:
        record = _record(bases, identity, record)
        sources = _sources(record, rank, node, verbose)
        if not following and record.begun is None and not sources:
            raise _without_start(record)
        for path, prefix, error, only in sources:
            if (path, error) not in tails:
                tails[path, error] = Tail(path, prefix, lines if first else None, only)
        first = first and not tails
        some = _drain(tails)
        if watch is None or record.over or watch.is_the_end(record.begun is None and not tails, some):
            break
        time.sleep(LOOK)
    if record.begun is None and not tails:
        raise _without_start(record)
    if following:
        time.sleep(LOOK)  # the program's last lines may come at the same time as the outcome
        _drain(tails)
    _drain(tails, last=True)
    if not tails and rank is not None:
        raise UsageError(f"rank {rank} of job {identity} has written nothing", "check the rank's number")
    if not any(path.exists() for path, _ in tails):
        names = ", ".join(str(path) for path, _ in tails) or f"the output of job {identity}"
        raise UsageError(f"{names} is not there", "look where the output was moved")
    if following:
        _end_of(identity, bases, exit_status)


def _end_of(identity: str, bases: Sequence[Path], exit_status: bool) -> None:
    """Show how a job that was followed has ended, and exit with its code if that is asked for."""
    code = tell_ends([identity], bases, user_queue(), Screen())
    if exit_status and code is None:
        raise SchedulerError(f"the end of job {identity} is unknown", f"see mnrun status {identity}")
    if exit_status:
        sys.exit(code)


def _without_start(record: JobRecord) -> UsageError:
    """Return the error for a job without output, by the scheduler's answer, if there is one."""
    ends: set[str] = set()
    waits = False
    with suppress(SchedulerError):
        views, _, _ = asking.views([record.id], {record.id: record}, user_queue)
        ends = {"" if view.code is None else view.state for view in views}
        waits = any(view.state == "PENDING" for view in views)
    if record.submitted is not None and record.submitted.own and not waits:
        return UsageError(f"{record.submitted.output} is not there", "look where the output was moved")
    if ends == {"CANCELLED"}:
        return UsageError(f"job {record.id} was cancelled before it started")
    if not ends or "" in ends:
        return UsageError(f"job {record.id} has not started, and has no output yet", "wait for it with -f")
    return UsageError(f"job {record.id} ended before it started", f"mnrun status {record.id} shows the reason")


def _watch(identity: str, bases: Sequence[Path]) -> Any:
    from mnrun.jobs import waiting

    return waiting.Watch(identity, bases, user_queue(), Screen().say)


def _drain(tails: dict[tuple[Path, bool], Any], last: bool = False) -> bool:
    """Pass on all new output, and return whether there was any. With `last`, pass on an unfinished line too."""
    some = False
    for (_, error), tail in tails.items():
        stream = sys.stderr.buffer if error else sys.stdout.buffer
        while text := tail.more():
            stream.write(text)
            some = True
        if last:
            stream.write(tail.rest())
        stream.flush()
    return some


def _record(bases: Sequence[Path], identity: str, before: JobRecord | None) -> JobRecord:
    """Return the record of a job. Without one in its directory, the last record counts: the scheduler is asked once."""
    by_id = _read(bases, [identity])
    target.no_array(identity, by_id)
    record = by_id.get(identity) or before or target.without_start(identity, bases)
    if record is None:
        raise target.absence(identity, bases)
    return record


def _sources(record: JobRecord, rank: int | None, node: str, verbose: bool) -> list[tuple[Path, bytes, bool, str]]:
    """Return (file, prefix of its lines, whether it is standard error, a word that its lines must contain)."""
    begun, request = record.begun, record.submitted
    if begun is None:  # its modules are still loading, or failed to load
        asked = request.files(record.id, os.environ.get("USER", "")) if request is not None else ()
        return [(path, b"", number > 0, "") for number, path in enumerate(asked) if path.exists()]
    apart = begun.split_output or (request.split_output if request is not None else "")
    ranks = _ranks_on(record, node) if node else set()
    if not apart and (rank is not None or (node and not verbose)):
        also = f"; -v shows mnrun's lines about {node}" if node else ""
        raise UsageError(
            f"job {record.id} has no separate output for each rank", f"submit it with --split-output DIR{also}"
        )
    files = archive.rank_files(apart) if apart else {}
    if rank is not None:
        return [(path, b"", stream == "err", "") for (r, stream), path in files.items() if r == rank]
    own = [(archive.log(record), b"", True, node)] if verbose else []
    if node:
        return own + [(path, b"[%d] " % r, stream == "err", "") for (r, stream), path in files.items() if r in ranks]
    whole = [(Path(path), b"", error, "") for path, error in ((begun.output, False), (begun.error, True)) if path]
    whole = whole[:1] if begun.error == begun.output else whole
    return [*own, *whole, *((path, b"[%d] " % r, stream == "err", "") for (r, stream), path in files.items())]


def _ranks_on(record: JobRecord, node: str) -> set[int]:
    """Return the ranks on a node, as they reported themselves: mpirun may have placed them in any way."""
    assert record.begun is not None
    if node not in (nodeset.expand(record.begun.nodes) if record.begun.nodes else ()):
        raise UsageError(f"job {record.id} has no node {node}", f"its nodes are {record.begun.nodes or 'unknown'}")
    return archive.ranks(record).get(node, set())


def _check(ids: Sequence[str]) -> None:
    for identity in ids:
        if not records.is_id(identity):
            raise UsageError(f"{identity!r} is not the ID of a job", "write 123, or 123_4 for a task of an array")


def bases_of(job_dir: str | None) -> tuple[Path, ...]:
    """Return the directories of jobs' records: the named one, or else the usual ones and those of earlier jobs."""
    folder = job_dir or os.environ.get("MNRUN_JOB_DIR")
    if folder:
        return (Path(folder).expanduser().absolute(),)
    home = Path.home()
    usual = Path(str(standing("job_dir"))).expanduser().absolute()
    return tuple(dict.fromkeys((usual, archive.usual(home), *archive.places(home))))


def standing(name: str) -> object:
    """Return the value of an option for every job, from site, profile, user and environment."""
    from mnrun.config import load

    return load.standing(os.environ, str(Path.home()))[name].value


def _read(bases: Sequence[Path], ids: Sequence[str], since: float = 0) -> dict[str, JobRecord]:
    return archive.read(bases, ids, since)


def _poll() -> float:
    value = standing("slurm_poll")
    assert isinstance(value, int)
    return float(value)


def user_queue() -> Queue:
    """Return the scheduler's queue with the user's jobs. It is asked no more often than slurm_poll allows."""
    return at_hand(os.environ).user_queue(os.environ, Path.home(), _poll())

"""Show the output of a job from its files, as they grow."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mnrun import nodeset
from mnrun.attach import history, target, user
from mnrun.errors import SchedulerError, UsageError
from mnrun.jobs import archive, asking, state, waiting
from mnrun.jobs.records import JobRecord
from mnrun.jobs.state import JobView
from mnrun.jobs.tail import Tail
from mnrun.record import Record
from mnrun.schedulers.queue import Queue
from mnrun.schedulers.vocabulary import JobId, JobState
from mnrun.system.screen import Screen

LOOK = 0.5  # seconds between two reads of the files


@dataclass(frozen=True)
class Choice:
    """The part of a job's output to show: of some ranks or of one node, or all of it, its last `lines` lines."""

    lines: int | None = None
    ranks: Sequence[int] = ()
    node: str = ""
    failed: bool = False  # only the ranks that failed by themselves, where they can be told apart
    verbose: bool = False  # with mnrun's own lines about the nodes


def show(
    ids: Sequence[str], bases: Sequence[Path], following: bool, queue: Callable[[], Queue], choice: Choice = Choice()
) -> None:
    """Pass on the output of jobs, and if `following`, until all have ended. Lines of several jobs, or of the tasks of
    an array, begin with the id: `12_2| `. Raises UsageError for a job without output, after that of the others."""
    arrays = {identity for identity in ids if _is_array(identity, bases)}
    outputs: dict[str, _Output] = {}
    watches = {identity: waiting.Watch(identity, bases, queue(), Screen().say) for identity in ids if following}
    going = list(ids)
    while going:
        for identity in tuple(going):
            by_id: Mapping[str, JobRecord] = archive.read(bases, [identity]) if identity in arrays else {}
            names = _tasks(identity, by_id) if identity in arrays else [identity]
            names = names or ([] if following else [identity])
            for name in (name for name in names if name not in outputs):
                prefix = f"{name}| ".encode() if arrays or len(ids) > 1 else b""
                outputs[name] = _Output(name, bases, choice, queue, prefix)
            mine = [outputs[name] for name in names]
            some = [output.look() for output in mine]  # each of them looks
            ended = state.final(identity, by_id) is not None if identity in arrays else mine[0].over
            over, waits = not following or ended, all(output.waits for output in mine)
            if over or watches[identity].is_the_end(by_id or mine[0].records, waits, any(some)):
                going.remove(identity)
        if going:
            time.sleep(LOOK)
    if following:
        time.sleep(LOOK)  # the program's last lines may come at the same time as the outcome
    problems = [problem for output in outputs.values() if (problem := output.end()) is not None]
    for problem in problems[1:]:
        Screen().warn(str(problem))
    if problems:
        raise problems[0]


def failed(ids: Sequence[str], bases: Sequence[Path], queue: Callable[[], Queue]) -> list[JobView]:
    """Return those of these jobs, and of the tasks of these arrays, that have failed. Raises SchedulerError."""
    views, unknown, _ = asking.views(ids, archive.read(bases, ids), queue)
    if unknown:
        raise asking.unknown(unknown, bases)
    return [view for view in views if view.code and view.state != JobState.CANCELLED]


def _is_array(identity: str, bases: Sequence[Path]) -> bool:
    by_id = archive.read(bases, [identity])
    request = by_id[identity].submitted if identity in by_id and not JobId.of(identity).task else None
    return bool(target.tasks(identity, by_id)) or (request is not None and request.tasks > 0)


def _tasks(identity: str, by_id: Mapping[str, JobRecord]) -> list[str]:
    """Return the tasks of an array that have begun, in their order. `by_id`: archive.read of it."""
    return sorted(target.tasks(identity, by_id), key=lambda name: int(JobId.of(name).task))


class _Output:
    """The output of one job."""

    def __init__(
        self,
        identity: str,
        bases: Sequence[Path],
        choice: Choice,
        queue: Callable[[], Queue],
        prefix: bytes,
    ) -> None:
        self._id, self._bases, self._choice = identity, bases, choice
        self._queue, self._prefix = queue, prefix
        self._tails: dict[tuple[Path, bool], Tail] = {}
        self._lines = choice.lines  # of the files that are there at the first look
        self._record: JobRecord | None = None

    @property
    def over(self) -> bool:
        return self._record is not None and self._record.over

    @property
    def records(self) -> dict[str, JobRecord]:
        return {self._id: self._record} if self._record is not None else {}

    @property
    def waits(self) -> bool:
        return (self._record is None or self._record.begun is None) and not self._tails

    def look(self) -> bool:
        """Pass on all new output, and return whether there was any. Raises UsageError if there is nothing to follow."""
        self._record = record = _record(self._bases, self._id, self._record)
        for source in _sources(record, self._choice):
            if (source.path, source.error) not in self._tails:
                prefix = self._prefix + source.prefix
                self._tails[source.path, source.error] = Tail(source.path, prefix, self._lines, source.only, source.cut)
        if self._tails:
            self._lines = None
        return _drain(self._tails)

    def end(self) -> UsageError | None:
        """Pass on the rest, and return the error if there was no output."""
        record, tails = self._record, self._tails
        assert record is not None
        if self.waits:
            return _without_start(record, self._queue)
        _drain(tails)
        _drain(tails, last=True)
        if not tails and (ranks := self._choice.ranks):
            problem = f"rank {', '.join(map(str, ranks))} of job {self._id} has written nothing"
            return UsageError(problem, "check its number")
        if not any(os.path.exists(path) for path, _ in tails):
            names = ", ".join(str(path) for path, _ in tails) or f"the output of job {self._id}"
            return UsageError(f"{names} is not there", "look where the output was moved")
        return None


def _without_start(record: JobRecord, queue: Callable[[], Queue]) -> UsageError:
    ends: set[JobState | None] = set()
    waits = False
    with suppress(SchedulerError):
        views, _, _ = asking.views([record.id], {record.id: record}, queue)
        ends = {None if view.code is None else view.state for view in views}
        waits = any(view.state == JobState.PENDING for view in views)
    if record.submitted is not None and record.submitted.own and not waits:
        return UsageError(f"{record.submitted.output} is not there", "look where the output was moved")
    if ends == {JobState.CANCELLED}:
        return UsageError(f"job {record.id} was cancelled before it started")
    if not ends or None in ends:
        return UsageError(f"job {record.id} has not started, and has no output yet", "wait for it with -f")
    return UsageError(f"job {record.id} ended before it started", f"mnrun status {record.id} shows the reason")


def last_lines(record: JobRecord) -> list[str]:
    """Return the last lines of a job's output: of its files, or where its scheduler keeps them."""
    return history.last_lines(record, user.name()) or user.printed(record.id, history.LINES)


def _drain(tails: dict[tuple[Path, bool], Tail], last: bool = False) -> bool:
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
    by_id = archive.read(bases, [identity])
    record = by_id.get(identity) or before or target.without_start(identity, bases)
    if record is None:
        raise target.absence(identity, bases)
    return record


class _Source(Record):
    """A file to show, and what its lines begin with. `only` are those that have this, which `cut` takes out of them."""

    path: Path
    error: bool = False
    prefix: bytes = b""
    only: re.Pattern[bytes] | None = None
    cut: bool = False


def _sources(record: JobRecord, choice: Choice) -> list[_Source]:
    """Return the files that show this part of a job's output."""
    begun, node = record.begun, choice.node
    if begun is None:  # its modules are still loading, or failed to load, or it is a script of the user's own
        asked = record.files(user.name())
        return [_Source(path, number > 0) for number, path in enumerate(asked) if os.path.exists(path)]
    folder = begun.split_output or (record.submitted.split_output if record.submitted is not None else "")
    files = archive.rank_files(folder) if folder else {}
    ranks = _chosen(record, choice)
    word = re.compile(rb"(?<![\w-])" + re.escape(os.fsencode(node)) + rb"(?![\w-])") if node else None
    own = [_Source(archive.log(record), True, only=word)] if choice.verbose else []
    texts = [_Source(Path(path), error) for path, error in ((begun.output, False), (begun.error, True)) if path]
    texts = texts[:1] if begun.error == begun.output else texts
    if ranks is None:
        return [*own, *texts, *(_Source(path, stream == "err", b"[%d] " % r) for (r, stream), path in files.items())]
    alone = len(ranks) == 1 and not node
    if folder:
        mine = [(rank, stream, path) for (rank, stream), path in files.items() if rank in ranks]
        return [*own, *(_Source(path, stream == "err", b"" if alone else b"[%d] " % r) for r, stream, path in mine)]
    if begun.label:
        label = re.compile(rb"^ {0,8}(?:%s): " % b"|".join(b"%d" % rank for rank in sorted(ranks)))
        return [*own, *(source._replace(only=label, cut=alone) for source in texts)]
    if choice.failed:
        return [*own, *texts]
    if own and node:
        return own
    also = f"; -v shows mnrun's lines about {node}" if node else ""
    problem = f"job {record.id} has no separate output for each rank"
    raise UsageError(problem, f"submit it with --label or --split-output DIR{also}")


def _chosen(record: JobRecord, choice: Choice) -> Collection[int] | None:
    """Return the ranks to show, or None for all of them."""
    if choice.failed:
        return history.failed_ranks(record, user.name()) or None
    return _ranks_on(record, choice.node) if choice.node else choice.ranks or None


def _ranks_on(record: JobRecord, node: str) -> set[int]:
    """Return the ranks on a node, as they reported themselves: mpirun may have placed them in any way."""
    assert record.begun is not None
    if node not in (nodeset.expand(record.begun.nodes) if record.begun.nodes else ()):
        raise UsageError(f"job {record.id} has no node {node}", f"its nodes are {record.begun.nodes or 'unknown'}")
    return archive.started(archive.last_start(record)).get(node, set())

"""Find the service of a job, and tell what one waits for that is not ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from mnrun.attach import output, target, user
from mnrun.errors import LaunchError, NodeError, UsageError
from mnrun.jobs import archive, asking, launches, state
from mnrun.jobs.records import JobRecord
from mnrun.jobs.state import JobView
from mnrun.record import Record
from mnrun.schedulers import SCHEDULERS
from mnrun.schedulers.protocols import Reach
from mnrun.schedulers.vocabulary import JobState
from mnrun.services import serving
from mnrun.services.serving import Serving


class Served(Record):
    """A service, and the job whose nodes it is on."""

    serving: Serving
    scheduler: Reach
    job: str
    number: str  # the scheduler's id of the job


def of(name: str, bases: Sequence[Path], environ: Mapping[str, str]) -> Served:
    """Return the service of a job, or one beside it. Raises NodeError for one whose nodes are not ready, and
    LaunchError for a job that is none or does not run."""
    try:
        launch = target.launch(name, bases, environ)
    except LaunchError:
        view = _submitted(name, bases)
        if view is None:
            raise
        if view.state != JobState.RUNNING or (found := _of_launcher(name)) is None:
            raise _without_nodes(view, bases) from None
        return Served(found, user.scheduler("", [name]), name, name)
    found = serving.read(Path(launch.folder))
    if found is None:
        for one in (one for one in launches.live(bases) if one.beside == launch.name):
            if (its := serving.read(Path(one.folder))) and (found is None or its.state == serving.READY):
                found = its
    if found is None:
        if _is_service(name, bases):
            raise unready(name, bases, "its nodes are starting")
        raise UsageError(f"job {name} is no service", f"see mnrun status {name}")
    if launch.beside:  # its node is the other job's
        launch = target.launch(launch.beside, bases, environ)
    return Served(found, SCHEDULERS[launch.scheduler], launch.name, launch.number)


def words(view: JobView, folders: Mapping[str, Path], bases: Sequence[Path]) -> str:
    """Return the state of a job's service and its address, or "". `folders` has the records of launches."""
    if view.id in folders:
        return serving.words(serving.read(folders[view.id]))
    asked = view.state == JobState.RUNNING and _is_service(view.id, bases)
    return serving.words(_of_launcher(view.id)) if asked else ""


def unready(name: str, bases: Sequence[Path], why: str) -> NodeError:
    """Return the error for a service that is not ready, with the last lines of its nodes where a file has them."""
    error = f"the service of job {name} is not ready yet{f': {why}' if why else ''}"
    record = _record(name, bases)
    lines = output.last_lines(record) if record is not None else []
    its = [line for line in lines if line.strip() and not line.startswith("mnrun: ")]
    if record is None or not its:
        return NodeError(error, f"see mnrun status {name}")
    started = {rank: node for one in launches.running(bases, name) for rank, node in target.ranks(one).items()}
    labelled = len(started) > 1 or any(line.startswith("1: ") for line in its)  # as every service on several nodes
    told = serving.last_lines(started, labelled, its)
    return NodeError(error, f"see mnrun logs {name}", *filter(None, (told,)))


def _of_launcher(name: str) -> Serving | None:
    """Return the service of a job whose records are in the job itself, or None."""
    return serving.of_text(user.recorded(name, serving.FILE))


def _record(name: str, bases: Sequence[Path]) -> JobRecord | None:
    return archive.read(bases, [name]).get(name)


def _is_service(name: str, bases: Sequence[Path]) -> bool:
    """Return whether a job was submitted as a service."""
    made = archive.requested(Path(record.folder)) if (record := _record(name, bases)) is not None else None
    return made is not None and "ready" in made.settings


def _submitted(name: str, bases: Sequence[Path]) -> JobView | None:
    """Return a service that was submitted, as its scheduler sees it, or None."""
    record = _record(name, bases)
    if record is None or not _is_service(name, bases):
        return None
    views, _, _ = asking.views([name], {name: record}, partial(user.queue, "", [name]))
    return next(iter(views), None)


def _without_nodes(view: JobView, bases: Sequence[Path]) -> LaunchError:
    """Return the error for a service without nodes."""
    if not view.active:
        return UsageError(state.line(view.id, view.state, view.code, view.why), f"see mnrun why {view.id}")
    if view.state == JobState.PENDING:
        return unready(view.id, bases, f"it waits for nodes{f': {view.why}' if view.why else ''}")
    return unready(view.id, bases, "its nodes are starting")

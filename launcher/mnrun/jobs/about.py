"""Tell which job a report is about: what ran, on what, when, and how it ended."""

from __future__ import annotations

import json
import re
import shlex
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from mnrun import formats, nodeset
from mnrun.jobs import archive, launches, state
from mnrun.jobs.launches import LaunchRecord
from mnrun.jobs.records import LOG, SAMPLES, Ended
from mnrun.jobs.state import JobView
from mnrun.jobs.timeline import Moments, Timeline, Trace, trace
from mnrun.model import UNKNOWN_IMAGE, ImageIdentity
from mnrun.nodeset import counted
from mnrun.schedulers import SCHEDULERS
from mnrun.schedulers.vocabulary import JobState, span
from mnrun.watching import series
from mnrun.watching.series import Used

UNWATCHED = "not recorded; start the job with --watch 10s to see its CPU, memory and GPUs here"


@dataclass(frozen=True)
class About:
    """The job of a report."""

    id: Annotated[str, "its id, or the name of a live run"]
    name: Annotated[str, "its name"]
    state: Annotated[JobState, "its state: `COMPLETED`, `FAILED` …"]
    code: Annotated[int | None, "its exit code, once it has ended"]
    why: Annotated[str, "the reason of its end, or that it waits; empty if there is none"]
    reason: Annotated[str, "of an end, `why` in one word that never changes; empty if there is none"]
    command: Annotated[tuple[str, ...], "its words; none if unknown"]
    image: Annotated[str, "its image; empty without one, or if unknown"]
    identity: Annotated[ImageIdentity, "what tells this image from others"]
    runtime: Annotated[str, "the runtime of its containers; empty if unknown"]
    mode: Annotated[str, "`inside-out` or `outside-in`; empty if unknown"]
    starter: Annotated[str, "the starter of its ranks; empty if unknown"]
    scheduler: Annotated[str, "its scheduler; empty if unknown"]
    submitted: Annotated[float, "when it was submitted, in seconds since 1970; 0 if unknown"]
    began: Annotated[float, "when it began; 0 if it waits, or if that is unknown"]
    ended: Annotated[float, "when it ended; 0 if it goes on, or if that is unknown"]
    nodelist: Annotated[str, "its nodes: `node[01-04]`"]
    nodes: Annotated[int, "how many nodes; 0 if unknown"]
    ranks: Annotated[int, "how many ranks have started; 0 if unknown"]
    gpus: Annotated[int, "how many GPUs; 0 if unknown"]
    used: Annotated[Used | None, "what it has used; null if it was not watched (--watch)"] = None

    def line(self) -> str:
        """Return its state, and once it has ended, its exit code, the time that it took, and the reason."""
        took = self.ended - self.began if self.began and self.ended >= self.began else None
        return state.line(f"{self.id}{f' ({self.name})' if self.name else ''}", self.state, self.code, self.why, took)


@dataclass(frozen=True)
class Report(Trace):
    """A job and the moments of its launch, as `--timeline` writes them. They are a trace in Chrome's format as well."""

    about: Annotated[About | None, "the job; null in a file of an older mnrun"] = None


def report(times: Timeline | None, about: About | None) -> Report:
    """Return a report, without moments if the launch has left none."""
    known = times or Timeline(about.id if about else "", Moments(), {})
    return Report(**vars(trace(known)), about=about)


def of(view: JobView, folder: Path | None, command: tuple[str, ...] = ()) -> About:
    """Return what is known of a job, by its state, the records of its launch in `folder`, and the command that was
    asked for."""
    launch = next(launches.read(folder), None) if folder is not None else None
    ranks = sum(map(len, archive.started(folder).values())) if folder is not None else 0
    heard = series.read_all(archive.text(folder, SAMPLES)) if folder is not None else []
    return About(
        id=view.id,
        name=view.name,
        state=view.state,
        code=view.code,
        why=view.why,
        reason=view.reason,
        command=launch.command if launch and launch.command else command,
        image=launch.image if launch else "",
        identity=_identity(archive.text(folder, launches.READY)) if folder is not None else UNKNOWN_IMAGE,
        runtime=launch.runtime if launch else "",
        mode=launch.mode if launch else "",
        starter=_starter(launch) if launch else "",
        scheduler=SCHEDULERS[launch.scheduler].TITLE if launch and launch.scheduler in SCHEDULERS else "",
        submitted=min(view.submitted, view.began or view.submitted),  # a job may begin before its request is recorded
        began=view.began,
        ended=view.ended,
        nodelist=view.nodelist,
        nodes=view.nodes,
        ranks=ranks,
        gpus=view.gpus,
        used=series.used(heard),
    )


def of_run(launch: LaunchRecord, end: Ended | None) -> About:
    """Return what is known of a live run that has ended."""
    return of(run(launch, end), Path(launch.folder))


def _starter(launch: LaunchRecord) -> str:
    """Return the starter of the ranks. The head's guard has told it where the image decides."""
    if launch.starter != "auto":
        return launch.starter
    told = re.search(r"^starter \S+ (\w+)$", archive.text(Path(launch.folder), LOG), re.MULTILINE | re.ASCII)
    return told[1] if told else "mpirun"


def _identity(text: str) -> ImageIdentity:
    """Return the identity of the image in a record of the nodes."""
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        return _typed("identity", json.loads(text)["image"])  # type: ignore[no-any-return]
    return UNKNOWN_IMAGE


def run(launch: LaunchRecord, end: Ended | None) -> JobView:
    """Return a live run that has ended."""
    return JobView(
        id=launch.job,
        name=launch.title,
        state=JobState.UNKNOWN if end is None else JobState.FAILED if end.code else JobState.COMPLETED,
        why=end.why if end else "it left no record of its end",
        nodes=len(launch.nodes),
        nodelist=nodeset.fold(launch.nodes),
        gpus=sum(launch.gpus.values()),
        left=None,
        code=end.code if end else None,
        submitted=launch.asked,
        reason=end.reason if end else "",
        began=launch.begun,
        ended=end.time if end else 0.0,
    )


def rows(about: About) -> list[tuple[str, str]]:
    """Return (property, value) of what is known, for people."""
    ran = [counted(about.ranks, "rank")] if about.ranks else []
    ran += [f"{counted(about.nodes, 'node')}{f' ({about.nodelist})' if about.nodelist else ''}"] if about.nodes else []
    gpus = f", {counted(about.gpus, 'GPU')}" if about.gpus else ""
    waited = f", after {span(int(about.began - about.submitted))}" if 0 < about.submitted <= about.began else ""
    found = {
        "command": shlex.join(about.command),
        "image": _image(about),
        "launch": ", ".join(filter(None, (about.scheduler, about.runtime, about.mode, about.starter))),
        "submitted": _moment(about.submitted),
        "started": about.began and f"{_moment(about.began)}{waited}",
        "ended": _moment(about.ended),
        "ran on": f"{' on '.join(ran)}{gpus}" if ran else "",
        "used": str(about.used or f": {UNWATCHED}").partition(": ")[2],
    }
    return [(name, value) for name, value in found.items() if value]


def _image(about: About) -> str:
    if not about.image:
        return "none: the nodes' own programs" if about.runtime == "host" else ""
    identity = about.identity
    words = [identity.digest or "digest unknown"]
    words += [formats.size(identity.size)] if identity.size else []
    words += [f"written {_moment(identity.written)}"] if identity.written else []
    words += [f"SIF {identity.sif}"] if identity.sif else []
    return f"{about.image} ({', '.join(words)})"


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else ""


def parse(text: str) -> About | None:
    """Return what the text of a file tells of its job (--timeline), or None if it tells nothing, or too little."""
    try:
        values = json.loads(text)["about"]
        used = values["used"]
        known = {name: _typed(name, values[name]) for name in About.__dataclass_fields__ if name != "used"}
        return About(**known, used=Used(**{**used, "idle": tuple(used["idle"])}) if used else None)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _typed(name: str, value: Any) -> Any:
    """Return a value of a file as its field has it. Raises ValueError or TypeError."""
    if name == "state":
        return JobState(value)
    if name == "identity":
        return ImageIdentity(str(value["digest"]), str(value["sif"]), int(value["size"]), float(value["written"]))
    if name == "command":
        return tuple(map(str, value))
    if name in ("submitted", "began", "ended"):
        return float(value)
    if name in ("code", "nodes", "ranks", "gpus"):
        return value if value is None else int(value)
    return str(value)

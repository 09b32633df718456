"""Tell where the time of a launch went, from the moments that mnrun noted. Touches no file.

All moments are of mnrun's own clock: a node's word counts when it arrives. mnrun reads no clock of a node.
The phases of a node follow each other without a gap, so that they add up to the whole launch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

# phase -> the moment with which it ends
PHASES = {
    "allocate": "held",
    "prepare": "serve",
    "reach": "here",
    "container": "ready",
    "others": "go",
    "ranks": "rank",
    "run": "ended",
    "sweep": "bye",
    "finish": "over",
}
OWN = frozenset(("reach", "container", "ranks", "sweep"))  # phases in which a node does not wait for others
LEVELS = (50, 90, 99, 100)  # percent of the nodes
LEGEND = "50 %: half of the nodes took at most so many seconds, and so on; SLOWEST: those that took longest"


@dataclass(frozen=True)
class Moments:
    """Moments of the whole launch, in seconds since mnrun began."""

    held: Annotated[float | None, "mnrun has the nodes"] = None
    serve: Annotated[float | None, "the step that serves the nodes starts"] = None
    go: Annotated[float | None, "all nodes are ready"] = None
    ended: Annotated[float | None, "the program has ended"] = None
    over: Annotated[float, "mnrun ends"] = 0.0


@dataclass(frozen=True)
class NodeMoments:
    """Moments of a node, in seconds since mnrun began."""

    here: Annotated[float | None, "its first word arrives"] = None
    ready: Annotated[float | None, "its container is ready"] = None
    rank: Annotated[float | None, "its last rank has started"] = None
    bye: Annotated[float | None, "everything of the job has ended there"] = None


WORDS = frozenset(NodeMoments.__dataclass_fields__)  # words of nodes that are moments; the last `rank` counts


@dataclass(frozen=True)
class Timeline:
    """The moments of a launch, and those of each node. A moment that never came is null."""

    job: Annotated[str, "mnrun's name for the launch"]
    moments: Annotated[Moments, "seconds from the begin of mnrun until each moment of the launch"]
    nodes: Annotated[Mapping[str, NodeMoments], "the same of each node"]

    @property
    def whole(self) -> float:
        return self.moments.over


@dataclass(frozen=True)
class TraceEvent:
    """A phase of a node, or the name of its row."""

    ph: Annotated[str, "`X` for a phase, `M` for a name"]
    name: Annotated[str, "the phase"]
    tid: Annotated[int, "the row of the node"]
    ts: Annotated[int, "the begin, in microseconds"] = 0
    dur: Annotated[int, "the duration, in microseconds"] = 0
    args: Annotated[Mapping[str, str], "the node of a row, as `name`"] = field(default_factory=dict)
    pid: Annotated[int, "1: the launch"] = 1


@dataclass(frozen=True)
class Trace(Timeline):
    """The moments of a launch, as `--timeline` writes them. They are a trace in Chrome's format as well."""

    displayTimeUnit: Annotated[str, "`ms`"] = "ms"
    traceEvents: Annotated[tuple[TraceEvent, ...], "the phases of each node"] = ()


T = TypeVar("T", Moments, NodeMoments)


def parse(text: str) -> Timeline | None:
    """Return the record in a file's text, or None if there is none, or one of another form."""
    try:
        values = json.loads(text)
        nodes = {str(node): _moments(NodeMoments, moments) for node, moments in values["nodes"].items()}
        return Timeline(str(values["job"]), _moments(Moments, values["moments"]), nodes)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _moments(kind: type[T], values: Mapping[str, Any]) -> T:
    return kind(**{name: float(values[name]) for name in kind.__dataclass_fields__ if values.get(name) is not None})


def phases(timeline: Timeline, node: str) -> dict[str, float]:
    """Return phase -> seconds on a node, which add up to the whole. Where a moment is missing, as after a failure, the
    phase under way lasts until the next known moment."""
    known = {**vars(timeline.moments), **vars(timeline.nodes[node])}
    seconds = dict.fromkeys(_ran(timeline), 0.0)
    now, under_way = 0.0, next(iter(seconds))
    after = dict(zip(seconds, [*list(seconds)[1:], "finish"]))
    for phase in seconds:
        moment = known[PHASES[phase]]
        if moment is not None:
            moment = min(max(moment, now), timeline.whole)
            seconds[under_way] += moment - now
            now, under_way = moment, after[phase]
    return seconds


def _ran(timeline: Timeline) -> list[str]:
    """Return the phases of the launch. Where no rank reports, as in a script, its ranks have no phase."""
    counted = any(moments.rank is not None for moments in timeline.nodes.values())
    return [phase for phase in PHASES if counted or phase != "ranks"]


def percentile(values: Iterable[float], percent: int) -> float:
    """Return the least value that so many percent of the values do not exceed. Without values, it is 0."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else 0.0


def trace(timeline: Timeline) -> Trace:
    events: list[TraceEvent] = []
    for number, node in enumerate(timeline.nodes):
        events.append(TraceEvent("M", "thread_name", number, args={"name": node}))
        begin = 0.0
        for phase, seconds in phases(timeline, node).items():
            end = begin + seconds
            if seconds:
                events.append(TraceEvent("X", phase, number, _micro(begin), _micro(end) - _micro(begin)))
            begin = end
    return Trace(timeline.job, timeline.moments, timeline.nodes, traceEvents=tuple(events))


def _micro(seconds: float) -> int:
    return round(seconds * 1e6)


def rows(timeline: Timeline, names: int = 3) -> list[tuple[str, ...]]:
    """Return for each phase the percentiles of its seconds, and the slowest nodes if these do not wait for others."""
    by_node = {node: phases(timeline, node) for node in timeline.nodes}
    return [_row(phase, {node: seconds[phase] for node, seconds in by_node.items()}, names) for phase in _ran(timeline)]


def _row(phase: str, of: Mapping[str, float], names: int) -> tuple[str, ...]:
    levels = [f"{percentile(of.values(), percent):.3f}" for percent in LEVELS]
    slowest = sorted(of, key=lambda node: -of[node])[:names] if phase in OWN else []
    return (phase, *levels, ", ".join(f"{node} {of[node]:.3f}" for node in slowest))

"""Turn samples into the course of each metric: of every GPU, node, device and rank. Touches no file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from mnrun import formats
from mnrun.nodeset import counted
from mnrun.record import Record
from mnrun.watching.samples import Cpu, Gpu, InfiniBand, Memory, Network, Rank, Sample, Thing, read

IDLE, LONG = 0.05, 300.0  # a GPU idles that was used by less than this part, for at least so many seconds
SHOWN = 4  # idle GPUs in a line
TAIL = 2_000_000  # bytes at the end of the samples that tell what idles now

Points = list[tuple[float, float]]  # time, value
Number = Callable[..., "float | None"]


class Metric(Record):
    """A value of one kind of thing. That of a counter is what it grows by in a second."""

    title: str
    unit: str
    kind: type[Thing]
    value: Number
    counter: bool = False


POWER = Metric("GPU power", "W", Gpu, lambda gpu: gpu.watts)
METRICS = (
    Metric("GPU use", "%", Gpu, lambda gpu: gpu.use),
    Metric("GPU memory", "B", Gpu, lambda gpu: gpu.used),
    Metric("GPU temperature", "C", Gpu, lambda gpu: gpu.celsius),
    POWER,
    Metric("CPU use", "%", Cpu, lambda cpu: cpu.seconds / cpu.cpus if cpu.cpus else None, True),
    Metric("Memory", "B", Memory, lambda memory: memory.used),
    Metric("Network in", "B/s", Network, lambda network: network.received, True),
    Metric("Network out", "B/s", Network, lambda network: network.sent, True),
    Metric("InfiniBand in", "B/s", InfiniBand, lambda port: port.received, True),
    Metric("InfiniBand out", "B/s", InfiniBand, lambda port: port.sent, True),
    Metric("CPUs of a rank", "", Rank, lambda rank: rank.seconds, True),
)


def name(thing: Thing) -> str:
    """Return the name of a thing on its node, or "" if each node has one."""
    if isinstance(thing, Gpu):
        return f"GPU {thing.number}"
    if isinstance(thing, Rank):
        return f"rank {thing.rank}"
    return thing.device if isinstance(thing, (Network, InfiniBand)) else ""


def courses(samples: Iterable[Sample]) -> dict[Metric, dict[str, Points]]:
    """Return metric -> the thing's name, with its node's -> its values. Metrics without a value are left out."""
    by_thing: dict[tuple[type[Thing], str], list[Sample]] = {}
    for sample in samples:
        label = " ".join(filter(None, (sample.node, name(sample.thing))))
        by_thing.setdefault((type(sample.thing), label), []).append(sample)
    found: dict[Metric, dict[str, Points]] = {}
    in_order = sorted(by_thing.items(), key=lambda pair: [*map(_number, re.split(r"(\d+)", pair[0][1]))])
    for metric in METRICS:
        for (kind, label), own in in_order:
            if kind is metric.kind and (points := _points(metric, own)):
                found.setdefault(metric, {})[label] = points
    return found


def _number(word: str) -> tuple[int, str]:
    return (int(word), "") if word.isdecimal() else (-1, word)


def _points(metric: Metric, samples: Iterable[Sample]) -> Points:
    values = [(one.time, value) for one in samples if (value := metric.value(one.thing)) is not None]
    if not metric.counter:
        return values
    steps = ((after, now, then) for (then, now), after in zip(values, values[1:]))
    return [(at, (value - now) / (at - then)) for (at, value), now, then in steps if at > then and value >= now]


def read_all(text: str) -> list[Sample]:
    return [sample for line in text.splitlines() for sample in read(line)]


def mean(points: Points) -> float:
    return sum(value for _, value in points) / len(points)


def energies(samples: Iterable[Sample]) -> dict[str, float]:
    """Return the energy that each GPU has used between its first sample and its last one, in joules."""
    by_gpu: dict[str, list[float]] = {}
    for one in samples:
        if isinstance(one.thing, Gpu) and one.thing.joules is not None:
            by_gpu.setdefault(f"{one.node} {name(one.thing)}", []).append(one.thing.joules)
    return {label: values[-1] - values[0] for label, values in by_gpu.items()}


def rows(samples: Sequence[Sample]) -> list[tuple[str, ...]]:
    """Return for each metric its title, and its mean over all things, with the things that have least and most."""
    lines: list[tuple[str, ...]] = []
    for metric, by_label in courses(samples).items():
        lines.append(_row(metric.title, metric.unit, {label: mean(points) for label, points in by_label.items()}))
        if metric is POWER and (energy := energies(samples)):
            lines.append(_row("GPU energy", "J", energy))
    return lines


def _row(title: str, unit: str, values: Mapping[str, float]) -> tuple[str, ...]:
    whole = text(sum(values.values()) / len(values), unit)
    return title, whole, *(f"{text(values[it], unit)} {it}" for it in extremes(values))


def extremes(values: Mapping[str, float]) -> tuple[str, str]:
    """Return the names of the least and the most of these values."""
    return min(values, key=values.__getitem__), max(values, key=values.__getitem__)


@dataclass(frozen=True)
class Used:
    """What a job has used that was watched. What no node has told is null."""

    cpu: Annotated[float | None, "the part of its CPUs that worked, in the mean, 0 to 1"]
    cpus: Annotated[int, "its CPUs on all nodes"]
    memory: Annotated[int, "the most memory that its nodes have used, in bytes; the sum of all nodes"]
    limit: Annotated[int, "the memory that it could use on all nodes, in bytes"]
    gpu: Annotated[float | None, "the part of the time in which its GPUs worked, in the mean, 0 to 1"]
    idle: Annotated[tuple[str, ...], "GPUs that worked less than 5 % of the time, each with its node"]
    joules: Annotated[float | None, "the energy of its GPUs, in joules; null if they do not tell it"] = None

    def __str__(self) -> str:
        parts = [] if self.cpu is None else [f"CPU {text(self.cpu, '%')} of {self.cpus}"]
        if self.memory:
            parts.append(f"memory {text(self.memory, 'B')}" + (f" of {text(self.limit, 'B')}" if self.limit else ""))
        parts += [] if self.gpu is None else [f"GPUs {text(self.gpu, '%')}"]
        parts += [text(self.joules / 3600, "Wh")] if self.joules else []
        if self.idle:
            more = f" and {len(self.idle) - SHOWN} more" if len(self.idle) > SHOWN else ""
            parts.append(f"idle: {', '.join(self.idle[:SHOWN])}{more}")
        return f"used: {', '.join(parts)}"


def used(samples: Sequence[Sample]) -> Used | None:
    """Return what a job has used, or None if no sample tells."""
    found = courses(samples)
    by_title = {metric.title: {label: mean(points) for label, points in own.items()} for metric, own in found.items()}
    cpu, gpus = by_title.get("CPU use", {}), by_title.get("GPU use", {})
    cpus = {one.node: one.thing.cpus for one in samples if isinstance(one.thing, Cpu)}
    memory: dict[str, Memory] = {}
    for one in samples:
        if isinstance(one.thing, Memory):
            memory[one.node] = max(one.thing, memory.get(one.node, one.thing))
    if not (cpu or gpus or memory):
        return None
    return Used(
        sum(part * cpus[node] for node, part in cpu.items()) / max(1, sum(cpus[node] for node in cpu)) if cpu else None,
        sum(cpus.values()),
        sum(most.used for most in memory.values()),
        sum(most.limit for most in memory.values()),
        sum(gpus.values()) / len(gpus) if gpus else None,
        tuple(label for label, part in gpus.items() if part < IDLE),
        sum(energy.values()) if (energy := energies(samples)) else None,
    )


def idle(tail: str) -> str:
    """Return which GPUs of a job idle, by the last samples of its nodes, or "" if none do."""
    by_gpu = courses(one for one in read_all(tail) if isinstance(one.thing, Gpu)).get(METRICS[0], {})
    still = [label for label, points in by_gpu.items() if _idles(points)]
    return f"{len(still)} of {counted(len(by_gpu), 'GPU')} idle: {', '.join(still[:SHOWN])}" if still else ""


def _idles(points: Points) -> bool:
    """Return whether the last ones of LONG seconds say so."""
    end = points[-1][0]
    return end - points[0][0] >= LONG and all(value < IDLE for time, value in points if time >= end - LONG)


def text(value: float, unit: str) -> str:
    """Return a value as a person writes it: 97 %, 61.2 GB, 412 W."""
    if unit == "%":
        return f"{value * 100:.0f} %"
    if unit.startswith("B") or unit == "J":
        return formats.size(value, unit)
    return f"{value:.3g} {unit}".rstrip() if value < 1000 else f"{value:.0f} {unit}"

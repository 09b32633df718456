"""Read the lines of wrappers/probe/sample.sh, which reports each tick what a job uses on a node. Touches no file.

    sample NODE TIME THING[<tab>THING…]

    cpu SECONDS CPUS                  CPU time that the job has used here, and the CPUs that it may use
    memory USED LIMIT                 bytes, without the cache of files. LIMIT is the node's if the job has none
    net DEVICE RECEIVED SENT          bytes since the node's start, of all that use the device
    ib DEVICE:PORT RECEIVED SENT      the same of an InfiniBand or RoCE port
    gpu INDEX USE USED TOTAL CELSIUS WATTS JOULES   percent, bytes, and the energy since the sampler began
    rank RANK PID SECONDS MEMORY      CPU time and bytes of the rank's processes. PID is its first one

TIME is in seconds since the epoch, with two digits after the point. Counters never fall while the job runs. A word `-`
stands for a value that the node cannot tell. A tick of a large node has several lines with the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Union

from mnrun.record import Record
from mnrun.watching.kept import WORD


class Cpu(Record):
    seconds: float
    cpus: int


class Memory(Record):
    used: int
    limit: int


class Network(Record):
    device: str
    received: int
    sent: int


class InfiniBand(Record):
    device: str  # mlx5_0:1
    received: int
    sent: int


class Gpu(Record):
    """A value is None where the GPU does not tell it."""

    number: int
    use: float | None  # 0 to 1
    used: int | None
    total: int | None
    celsius: float | None
    watts: float | None
    joules: float | None


class Rank(Record):
    rank: int
    pid: int
    seconds: float
    memory: int


Thing = Union[Cpu, Memory, Network, InfiniBand, Gpu, Rank]


class Sample(Record):
    """What a node has said of one thing."""

    node: str
    time: float
    thing: Thing


def read(line: str) -> list[Sample]:
    """Return the samples of a line. What is not as the grammar has it is left out: a file may end within a line."""
    head, *rest = line.rstrip("\n").split("\t")
    try:
        word, node, moment, first = head.split(" ", 3)
        time = _number(moment)
    except ValueError:
        return []
    things = map(_thing, (first, *rest)) if word == WORD else ()
    return [Sample(node, time, thing) for thing in things if thing is not None]


def _thing(text: str) -> Thing | None:
    kind, *words = text.split(" ")
    try:
        return _MAKERS[kind](*words)
    except (KeyError, TypeError, ValueError):
        return None


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _gpu(index: str, use: str, used: str, total: str, celsius: str, watts: str, joules: str) -> Gpu:
    words = (use, used, total, celsius, watts, joules)
    part, mine, whole, *others = (None if word == "-" else _number(word) for word in words)
    return Gpu(
        int(index),
        None if part is None else part / 100,
        None if mine is None else int(mine),
        None if whole is None else int(whole),
        *others,
    )


_MAKERS: dict[str, Callable[..., Thing]] = {
    "cpu": lambda seconds, cpus: Cpu(_number(seconds), int(cpus)),
    "memory": lambda used, limit: Memory(int(used), int(limit)),
    "net": lambda device, received, sent: Network(device, int(received), int(sent)),
    "ib": lambda device, received, sent: InfiniBand(device, int(received), int(sent)),
    "gpu": _gpu,
    "rank": lambda rank, pid, seconds, memory: Rank(int(rank), int(pid), _number(seconds), int(memory)),
}

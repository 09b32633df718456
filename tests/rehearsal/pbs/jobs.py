"""What a job is, what it asks for, and where it fits; nothing here touches the machine."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .wire import BAD_VALUE, EXCEEDS, UNKNOWN_RESOURCE

Chunk = dict[str, str]
CONSUMABLE = ("ncpus", "ngpus", "mem")
FEATURES = ("ib",)
CHUNKED = (*CONSUMABLE, *FEATURES, "mpiprocs", "ompthreads", "host", "vnode", "arch")
WHOLE = ("walltime", "place", "select", "nodes", "cput", "software", *CHUNKED)
UNITS = {"b": 0, "kb": 1, "mb": 2, "gb": 3, "tb": 4}
QUEUES: dict[str, dict[str, int]] = {"workq": {}, "short": {"ncpus": 8, "walltime": 600}}


class Refused(Exception):
    """A request that the server does not take: its number, and what its client says."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


@dataclass
class Job:
    """A job, an array or one of its parts; `attributes` is what qstat shows."""

    id: str
    uid: int
    attributes: dict[str, Any]
    chunks: list[Chunk]
    script: str = ""
    argv: list[str] = field(default_factory=list)
    shell: str = ""
    interactive: list[Any] = field(default_factory=list)  # port and key of its qsub
    parts: list[str] = field(default_factory=list)  # of an array
    whole: str = ""  # the array of a part
    where: list[str] = field(default_factory=list)  # a host for each chunk
    index: int = 0  # on its first host
    ending: str = ""  # deleted, or to run again
    cookie: str = ""
    after: float = 0.0  # not to start before

    @property
    def state(self) -> str:
        return str(self.attributes["job_state"])

    @property
    def number(self) -> str:
        return self.id.split(".")[0].split("[")[0]

    @property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(self.where))

    def put(self, **attributes: Any) -> None:
        """Change what qstat shows; None takes it away."""
        for name, value in attributes.items():
            if value is None:
                self.attributes.pop(name, None)
            else:
                self.attributes[name] = value
        self.attributes["mtime"] = stamp()


@dataclass
class Node:
    """A host with a MOM."""

    name: str
    total: dict[str, int]
    up: bool = False
    since: float = field(default_factory=time.time)
    parts: dict[str, dict[str, int]] = field(default_factory=dict)  # job -> what it has of it
    alone: str = ""  # the job that has it for itself
    comment: str = ""

    def free(self, name: str) -> int:
        return self.total[name] - self.used(name)

    def used(self, name: str) -> int:
        return sum(part.get(name, 0) for part in self.parts.values())

    @property
    def state(self) -> str:
        if not self.up:
            return "down"
        return "job-exclusive" if self.alone else "job-busy" if self.free("ncpus") <= 0 else "free"


def stamp(moment: float | None = None) -> str:
    """Return a time as PBS writes it."""
    return time.ctime(moment)


def kilobytes(text: str) -> int:
    """Return a size in kb."""
    found = re.fullmatch(r"(\d+)([kmgt]?b)?", text.lower())
    if not found:
        raise Refused(BAD_VALUE, "Illegal attribute or resource value")
    exponent = UNITS[found[2] or "b"]
    return max(1, (int(found[1]) << 10 * exponent) >> 10)


def size(amount: int) -> str:
    """Return kb in the largest unit that has no remainder."""
    for unit in ("kb", "mb", "gb"):
        if amount % 1024 or not amount:
            return f"{amount}{unit}"
        amount //= 1024
    return f"{amount}tb"


def seconds(text: str) -> int:
    """Return the seconds of a walltime."""
    if not re.fullmatch(r"\d+(:\d+){0,2}", text):
        raise Refused(BAD_VALUE, "Illegal attribute or resource value Resource_List.walltime")
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part)
    return total


def clock(total: int) -> str:
    return f"{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}"


def chunks(select: str) -> list[Chunk]:
    """Return the chunks of a select, one by one."""
    found = []
    for part in select.split("+"):
        first, *words = part.split(":")
        count = int(first) if first.isdigit() else 1
        words = words if first.isdigit() else [first, *words]
        chunk = dict(word.split("=", 1) for word in words if "=" in word)
        for name in chunk:
            if name not in CHUNKED:
                raise Refused(UNKNOWN_RESOURCE, f"Unknown resource: {name}")
        if "=" not in "".join(words) and words:
            raise Refused(BAD_VALUE, "Illegal attribute or resource value Resource_List.select")
        found += [{"ncpus": "1", **chunk} if "ncpus" not in chunk else chunk for _ in range(count)]
    return found


def resources(asked: Mapping[str, str], queue: str) -> tuple[dict[str, Any], list[Chunk]]:
    """Return Resource_List and the chunks of what -l asks for."""
    for name in asked:
        if name not in WHOLE:
            raise Refused(UNKNOWN_RESOURCE, f"Unknown resource Resource_List.{name}")
    result: dict[str, Any] = dict(asked)
    if "nodes" in asked:
        result["select"] = re.sub(r":ppn=(\d+)", r":ncpus=\1:mpiprocs=\1", asked["nodes"])
        result["place"] = "scatter"
    elif "select" not in asked:
        own = {"ncpus": "1", **{name: asked[name] for name in CHUNKED if name in asked}}
        result["select"] = ":".join(["1", *(f"{name}={value}" for name, value in own.items())])
    parts = chunks(result["select"])
    result.setdefault("place", "pack" if len(parts) == 1 else "free")
    for name in ("ncpus", "mpiprocs", "ngpus"):
        if any(name in part for part in parts):
            result[name] = sum(int(part.get(name, name == "mpiprocs")) for part in parts)
    if any("mem" in part for part in parts):
        result["mem"] = size(sum(kilobytes(part.get("mem", "0")) for part in parts if "mem" in part))
    result["nodect"] = len(parts)
    if "walltime" in asked:
        result["walltime"] = clock(seconds(asked["walltime"]))
    most = QUEUES[queue]
    if result["ncpus"] > most.get("ncpus", 10**9) or seconds(result.get("walltime", "0")) > most.get("walltime", 10**9):
        raise Refused(EXCEEDS, "Job violates queue and/or server resource limits")
    return dict(sorted(result.items())), parts


def amounts(chunk: Chunk) -> dict[str, int]:
    """Return what a chunk takes of its host."""
    return {
        name: kilobytes(value) if name == "mem" else int(value) for name, value in chunk.items() if name in CONSUMABLE
    }


def place(job: Job, nodes: Sequence[Node]) -> list[str] | str:
    """Return a host for each chunk, or why it waits, in the scheduler's words."""
    parts = [amounts(chunk) for chunk in job.chunks]
    for kind, count in (("Can Never Run", False), ("Not Running", True)):
        for name in CONSUMABLE:
            need = sum(part.get(name, 0) for part in parts)
            total = sum(node.total[name] for node in nodes)
            free = sum(node.free(name) if node.up else 0 for node in nodes) if count else total
            if need > free:
                show = size if name == "mem" else str
                shown = f"(R: {show(need)} A: {show(free)} T: {show(total)})"
                return f"{kind}: Insufficient amount of resource: {name} {shown}"
    how = job.attributes["Resource_List"]["place"]
    empty = [Node(node.name, node.total, up=True) for node in nodes]
    if _fit(job.chunks, how, empty) is None:
        return "Can Never Run: Not enough total nodes available"
    return _fit(job.chunks, how, nodes) or "Not Running: Not enough free nodes available"


def _fit(parts: Sequence[Chunk], how: str, nodes: Sequence[Node]) -> list[str] | None:
    words = how.split(":")
    if "pack" in words:
        tries = [_fit(parts, "free:" + ":".join(w for w in words if w != "pack"), [node]) for node in nodes]
        return next((found for found in tries if found), None)
    taken: dict[str, dict[str, int]] = {}
    chosen = []
    for chunk in parts:
        need = amounts(chunk)
        for node in nodes:
            had = taken.get(node.name, {})
            fits = node.up and not node.alone and chunk.get("host", node.name) == node.name
            fits = fits and not ("scatter" in words and had) and not ("excl" in how and node.parts)
            if fits and all(node.free(name) - had.get(name, 0) >= amount for name, amount in need.items()):
                taken[node.name] = {name: had.get(name, 0) + need.get(name, 0) for name in CONSUMABLE}
                chosen.append(node.name)
                break
        else:
            return None
    return chosen


def exec_host(job: Job) -> str:
    """Return where it runs, as qstat shows it."""
    counts: dict[str, int] = {}
    shown = []
    for host, chunk in zip(job.where, job.chunks):
        number, cpus = job.index + counts.get(host, 0), int(chunk["ncpus"])
        counts[host] = counts.get(host, 0) + 1
        shown.append(f"{host}/{number}" + (f"*{cpus}" if cpus != 1 else ""))
    return "+".join(shown)


def exec_vnode(job: Job) -> str:
    """Return what it has of each host, chunk by chunk."""
    shown = []
    for host, chunk in zip(job.where, job.chunks):
        has = [f"{name}={amount}{'kb' if name == 'mem' else ''}" for name, amount in amounts(chunk).items()]
        shown.append(f"({':'.join([host, *has])})")
    return "+".join(shown)


def node_file(job: Job) -> str:
    """Return PBS_NODEFILE: each host as often as it has places for ranks."""
    return "".join(f"{host}\n" * int(chunk.get("mpiprocs", 1)) for host, chunk in zip(job.where, job.chunks))

"""Tell what each node of a job uses now, and what is odd there, by its last two samples. Touches no file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import MappingProxyType
from typing import Annotated, Any

from mnrun.system.screen import GAP
from mnrun.watching.samples import Cpu, Gpu, InfiniBand, Memory, Network, Rank, Sample
from mnrun.watching.series import name, text

BUSY, IDLE = 0.8, 0.2  # a GPU idles below this part of its time, if another is above that one
HOT, FULL = 85.0, 0.95  # degrees Celsius, and the part of the memory
RANKS = 4  # of a node in the table


@dataclass(frozen=True)
class GpuUse:
    """A GPU. What it does not tell is null."""

    gpu: Annotated[int, "its number on the node"]
    use: Annotated[float | None, "the part of the time in which it works, 0 to 1"]
    used: Annotated[int | None, "used memory, in bytes"]
    total: Annotated[int | None, "its memory, in bytes"]
    celsius: Annotated[float | None, "its temperature"]
    watts: Annotated[float | None, "its power"]


@dataclass(frozen=True)
class RankUse:
    """A rank, with the processes that it has started."""

    rank: Annotated[int, "the rank"]
    pid: Annotated[int, "its process on the node"]
    cpus: Annotated[float | None, "how many CPUs it keeps busy; null before its second sample"]
    memory: Annotated[int, "its memory, in bytes"]


@dataclass(frozen=True)
class Flow:
    """A device of the network, with the data of all that use it."""

    device: Annotated[str, "`eth0`, or `mlx5_0:1` for a port of InfiniBand or RoCE"]
    received: Annotated[float, "bytes in a second"]
    sent: Annotated[float, "bytes in a second"]


@dataclass(frozen=True)
class NodeUse:
    """A node of the job."""

    node: Annotated[str, "its name"]
    odd: Annotated[tuple[str, ...], "what is odd there; empty if nothing is"] = ()
    cpu: Annotated[float | None, "the part of the job's CPUs that works, 0 to 1; null before the second sample"] = None
    cpus: Annotated[int, "the job's CPUs there"] = 0
    memory: Annotated[int, "the job's memory in use, in bytes"] = 0
    limit: Annotated[int, "the memory that the job may use, in bytes"] = 0
    gpus: Annotated[tuple[GpuUse, ...], "its GPUs"] = ()
    ranks: Annotated[tuple[RankUse, ...], "its ranks"] = ()
    networks: Annotated[tuple[Flow, ...], "its networks"] = ()


@dataclass(frozen=True)
class Use:
    """What a running job uses."""

    job: Annotated[str, "its id, or the name of a live run"]
    nodes: Annotated[tuple[NodeUse, ...], "its nodes, odd ones first"]


class Now:
    """The last two samples of each thing on each node."""

    def __init__(self, nodes: Sequence[str], gpus: Mapping[str, int] = MappingProxyType({})) -> None:
        """`gpus` are the job's on each node, for nodes that have some."""
        self._gpus = gpus
        self._pairs: dict[str, dict[tuple[type, str], tuple[Sample, Sample]]] = {node: {} for node in nodes}

    def take(self, samples: Iterable[Sample]) -> None:
        for sample in samples:
            if (pairs := self._pairs.get(sample.node)) is not None:
                key = (type(sample.thing), name(sample.thing))
                pairs[key] = (pairs[key][1] if key in pairs else sample, sample)

    def lose(self, nodes: Iterable[str]) -> None:
        """Forget nodes that tell no more."""
        for node in nodes:
            self._pairs[node] = {}

    @property
    def known(self) -> bool:
        """Return whether each node has samples of two times."""
        return all(any(a.time < b.time for a, b in pairs.values()) for pairs in self._pairs.values())

    @property
    def last(self) -> list[Sample]:
        """Return the last sample of each thing."""
        return [sample for pairs in self._pairs.values() for _, sample in pairs.values()]

    @property
    def silent(self) -> bool:
        """Return whether no node has told anything."""
        return not any(self._pairs.values())

    def uses(self) -> list[NodeUse]:
        """Return the nodes, odd ones first, and else in the job's order."""
        found = [_use(node, pairs.values()) for node, pairs in self._pairs.items()]
        busy = any((gpu.use or 0) > BUSY for use in found for gpu in use.gpus)
        moves = any(rank.cpus for use in found for rank in use.ranks)
        judged = [replace(use, odd=tuple(_oddities(use, busy, moves, self._gpus.get(use.node, 0)))) for use in found]
        return sorted(judged, key=lambda use: not use.odd)


def _use(node: str, pairs: Iterable[tuple[Sample, Sample]]) -> NodeUse:
    use, gpus, ranks, networks = NodeUse(node), [], [], []
    for before, last in pairs:
        old, new, seconds = before.thing, last.thing, last.time - before.time
        if isinstance(new, Cpu) and isinstance(old, Cpu):
            part = _rate(new.seconds - old.seconds, seconds * new.cpus)
            use = replace(use, cpus=new.cpus, cpu=part)
        elif isinstance(new, Memory):
            use = replace(use, memory=new.used, limit=new.limit)
        elif isinstance(new, Gpu):
            gpus.append(GpuUse(*new[:-1]))
        elif isinstance(new, Rank) and isinstance(old, Rank):
            ranks.append(RankUse(new.rank, new.pid, _rate(new.seconds - old.seconds, seconds), new.memory))
        elif isinstance(new, (Network, InfiniBand)) and isinstance(old, (Network, InfiniBand)):
            moved = _rate(new.received - old.received, seconds), _rate(new.sent - old.sent, seconds)
            networks.append(Flow(new.device, moved[0] or 0.0, moved[1] or 0.0))
    return replace(
        use,
        gpus=tuple(sorted(gpus, key=lambda gpu: gpu.gpu)),
        ranks=tuple(sorted(ranks, key=lambda rank: rank.rank)),
        networks=tuple(networks),
    )


def _rate(grown: float, seconds: float) -> float | None:
    return max(grown, 0.0) / seconds if seconds > 0 else None


def _oddities(use: NodeUse, busy: bool, moves: bool, gpus: int) -> Iterator[str]:
    if not use.cpus:
        yield "no answer"
    elif gpus and not use.gpus:
        yield "no program tells of its GPUs"
    for gpu in use.gpus:
        if busy and gpu.use is not None and gpu.use < IDLE:
            yield f"GPU {gpu.gpu} idles"
        if gpu.celsius is not None and gpu.celsius >= HOT:
            yield f"GPU {gpu.gpu} has {gpu.celsius:.0f} C"
    for rank in use.ranks:
        if moves and rank.cpus == 0:
            yield f"rank {rank.rank} uses no CPU"
    if use.limit and use.memory > FULL * use.limit:
        yield f"memory is {use.memory / use.limit:.0%} full"


HEADERS = ("NODE", "CPU", "MEMORY", "IN", "OUT", "RANK", "CPUS", "RAM", "GPU", "USE", "MEM", "TEMP", "POWER", "ODD")
ALWAYS = ("NODE", "CPU", "MEMORY", "ODD")
SPARED = ("TEMP", "POWER", "IN", "OUT", "RAM", "MEM", "CPUS")  # the first ones that a narrow terminal does without
ROOM = 12  # for the words in ODD, which may take several lines


def table(uses: Iterable[NodeUse], width: int = 0) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headers of a table and its rows, without empty columns. It fits a terminal of this width, if that is
    possible with few columns."""
    all_rows = rows(uses)
    columns = {header: [header, *cells] for header, *cells in zip(HEADERS, *all_rows)}
    kept = [header for header, words in columns.items() if header in ALWAYS or any(words[1:])]
    widths = {header: GAP + (ROOM if header == "ODD" else max(map(len, columns[header]))) for header in kept}
    for header in SPARED:
        if width and sum(widths.values()) > width:
            widths.pop(header, None)
    places = [HEADERS.index(header) for header in widths]
    return tuple(widths), [tuple(row[place] for place in places) for row in all_rows]


def rows(uses: Iterable[NodeUse]) -> list[tuple[str, ...]]:
    """Return the cells of a table: a row for each node with its first rank and GPU, and one for each other of these."""
    found = []
    for use in uses:
        cpu = "" if use.cpu is None else f"{text(use.cpu, '%')} of {use.cpus}"
        memory = f"{text(use.memory, 'B')} of {text(use.limit, 'B')}" if use.limit else ""
        front: tuple[str, ...] = (use.node, cpu, memory, *_flow(use))
        for rank, gpu in zip_longest(_slowest(use), use.gpus) if use.ranks or use.gpus else ((None, None),):
            cells = (*(_rank(rank) if rank else ("",) * 3), *(_gpu(gpu) if gpu else ("",) * 5))
            found.append((*front, *cells, "; ".join(use.odd) if front[0] else ""))
            front = ("",) * 5
    return found


def _slowest(use: NodeUse) -> list[RankUse]:
    """Return the ranks that a table shows: as many as there are GPUs, or RANKS, and of more the least busy ones."""
    chosen = sorted(use.ranks, key=lambda rank: rank.cpus or 0.0)[: max(RANKS, len(use.gpus))]
    return sorted(chosen, key=lambda rank: rank.rank)


def _rank(rank: RankUse) -> tuple[str, ...]:
    return str(rank.rank), "" if rank.cpus is None else f"{rank.cpus:.2f}", text(rank.memory, "B")


def line(use: NodeUse) -> str:
    """Return a node in a line, for output that is no terminal."""
    parts = [f"cpu {'-' if use.cpu is None else text(use.cpu, '%')} of {use.cpus}", f"memory {text(use.memory, 'B')}"]
    received, sent = _flow(use)
    parts += [f"in {received} out {sent}"] if received else []
    for gpu in use.gpus:
        number, *values = _gpu(gpu)
        parts.append(" ".join((f"gpu {number}", *filter(None, values))))
    return f"{use.node}: {', '.join(parts)}{''.join(f'; {odd}' for odd in use.odd)}"


def _flow(use: NodeUse) -> tuple[str, str]:
    if not use.networks:
        return "", ""
    total = (sum(one.received for one in use.networks), sum(one.sent for one in use.networks))
    return text(total[0], "B/s"), text(total[1], "B/s")


def _gpu(gpu: GpuUse) -> tuple[str, ...]:
    values: tuple[tuple[Any, str], ...] = ((gpu.use, "%"), (gpu.used, "B"), (gpu.celsius, "C"), (gpu.watts, "W"))
    return (str(gpu.gpu), *("" if value is None else text(value, unit) for value, unit in values))

"""Read the facts of a node's networks, adapters, GPUs and limits (network_facts.sh). Reads no file."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import NamedTuple

from mnrun.facts import Fact

# The place of a device on the PCI bus: its root, every bridge on the way, and the device last.
Place = tuple[str, ...]
Pairs = Mapping[str, str]  # a value of the form KEY=VALUE KEY=VALUE…
INFINIBAND, ROCE, EFA, SLINGSHOT = "InfiniBand", "RoCE", "EFA", "Slingshot"


@dataclass(frozen=True)
class Nic:
    """A network interface, with its addresses as A.B.C.D/LENGTH."""

    name: str
    kind: str  # physical, ipoib, bond, vlan, bridge, virtual
    state: str
    speed: int = 0  # Mb/s, 0 if unknown
    addresses: tuple[str, ...] = ()

    def has(self, address: str) -> bool:
        return any(entry.partition("/")[0] == address for entry in self.addresses)

    @cached_property
    def networks(self) -> tuple[str, ...]:
        return tuple(str(ipaddress.IPv4Interface(address).network) for address in self.addresses)


class Route(NamedTuple):
    """A route: the NIC through which a network is reached."""

    network: int
    mask: int
    nic: str


class Gid(NamedTuple):
    """An entry of a RoCE port's table of addresses."""

    number: int
    version: str
    address: str  # the address in IPv4, or ""
    nic: str


@dataclass(frozen=True)
class Hca:
    """A port of an adapter for RDMA."""

    name: str
    port: int
    active: bool
    rate: float  # Gb/s
    kind: str  # InfiniBand, RoCE or EFA
    model: int = 0  # PCI's device id
    place: Place = ()
    gids: tuple[Gid, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}:{self.port}"


@dataclass(frozen=True)
class NetworkFacts:
    """The networks, adapters, GPUs and limits of one node."""

    nics: Mapping[str, Nic] = field(default_factory=dict)
    routes: tuple[Route, ...] = ()  # the narrowest first
    hcas: tuple[Hca, ...] = ()
    gpus: tuple[Place, ...] = ()
    slingshot: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()  # verbs, gdrcopy, peermem, dmabuf
    kernel: str = ""  # its release
    limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def usable(self) -> tuple[Hca, ...]:
        """Return the ports that a program can use now."""
        return tuple(hca for hca in self.hcas if hca.active) if "verbs" in self.features else ()

    def nic_to(self, address: str) -> Nic | None:
        """Return the NIC through which an address is reached."""
        number = int(ipaddress.IPv4Address(address))
        route = next((route for route in self.routes if number & route.mask == route.network), None)
        return self.nics.get(route.nic) if route else None


def network_facts(facts: Iterable[Fact]) -> NetworkFacts:
    """Return the networks that one node has reported. A fact that is not as network_facts.sh writes it is skipped."""
    builder = _Builder()
    for fact in facts:
        with suppress(ValueError, KeyError):
            builder.add(fact)
    return builder.network_facts()


def of_nodes(reports: dict[str, list[Fact]]) -> dict[str, NetworkFacts]:
    """Return the networks of each node, and take its facts away. For thousands of nodes, both would fill the memory."""
    return {node: network_facts(reports.pop(node)) for node in tuple(reports)}


class _Builder:
    """The facts so far: those of one NIC, or of one port, stand in several lines."""

    def __init__(self) -> None:
        self.nics: dict[str, Pairs] = {}
        self.addresses: dict[str, list[str]] = {}
        self.routes: list[Route] = []
        self.hcas: list[Hca] = []
        self.gids: dict[str, list[Gid]] = {}
        self.gpus: list[Place] = []
        self.slingshot: list[str] = []
        self.features: set[str] = set()
        self.kernel = ""
        self.limits: dict[str, str] = {}

    def add(self, fact: Fact) -> None:
        name, words = fact.name, fact.value.split()
        pairs = dict(word.partition("=")[::2] for word in words)
        if fact.subject == "nic":
            self.nics[name] = pairs
        elif fact.subject == "address" and words:
            self.addresses.setdefault(name, []).append(str(ipaddress.IPv4Interface(words[0])))
        elif fact.subject == "route":
            self.routes.append(Route(*_network(name), dict(zip(words, words[1:]))["dev"]))
        elif fact.subject == "hca":
            self.hcas.append(_hca(name, pairs))
        elif fact.subject == "gid":
            self.gids.setdefault(f"{name}:{pairs['port']}", []).append(_gid(pairs))
        elif fact.subject == "gpu":
            self.gpus.append(_place(pairs.get("pci", "")))
        elif fact.subject == "cxi":
            self.slingshot.append(name)
        elif fact.subject == "feature":
            self.features.add(name)
        elif fact.subject == "kernel":
            self.kernel = fact.value
        elif fact.subject == "limit" and words:
            self.limits[name] = words[0]

    def network_facts(self) -> NetworkFacts:
        return NetworkFacts(
            {name: _nic(name, pairs, self.addresses.get(name, ())) for name, pairs in self.nics.items()},
            tuple(sorted(self.routes, key=lambda route: -route.mask)),
            tuple(replace(hca, gids=tuple(self.gids.get(str(hca), ()))) for hca in self.hcas),
            tuple(self.gpus),
            tuple(self.slingshot),
            frozenset(self.features),
            self.kernel,
            self.limits,
        )


@cache  # thousands of nodes have the same routes
def _network(name: str) -> tuple[int, int]:
    network = ipaddress.IPv4Network("0.0.0.0/0" if name == "default" else name)
    return int(network.network_address), int(network.netmask)


def _nic(name: str, pairs: Pairs, addresses: Iterable[str]) -> Nic:
    speed = pairs.get("speed", "")
    return Nic(
        name,
        pairs.get("kind", "virtual"),
        pairs.get("state", ""),
        int(speed) if speed.isdecimal() else 0,
        tuple(addresses),
    )


def _gid(pairs: Pairs) -> Gid:
    address = ipaddress.IPv6Address(pairs["gid"]).ipv4_mapped
    return Gid(
        int(pairs["index"]), pairs.get("type", ""), "" if address is None else str(address), pairs.get("ndev", "")
    )


def _hca(name: str, pairs: Pairs) -> Hca:
    kinds = {"InfiniBand": INFINIBAND, "Ethernet": ROCE}
    return Hca(
        name,
        int(pairs.get("port") or 1),
        pairs.get("state") == "ACTIVE",
        float(pairs.get("rate") or 0),
        EFA if pairs.get("driver") == "efa" else kinds.get(pairs.get("link", ""), ""),
        int(pairs.get("id") or "0", 16),
        _place(pairs.get("pci", "")),
    )


@cache  # and the same slots
def _place(pci: str) -> Place:
    return tuple(pci.split("/")) if pci else ()


def fast(facts: NetworkFacts) -> str:
    """Return the fast transport that a program can use on a node: InfiniBand, RoCE, EFA, Slingshot, or ""."""
    if facts.slingshot:
        return SLINGSHOT
    kinds = {hca.kind for hca in facts.usable}
    return next((kind for kind in (EFA, INFINIBAND, ROCE) if kind in kinds), "")


def common_steps(first: Place, second: Place) -> int:
    """Return how many steps of their ways two devices share: 0 is another root, 1 the root alone, more a switch or a
    port."""
    steps = 0
    for step, other_step in zip(first, second):
        if step != other_step:
            break
        steps += 1
    return steps


@dataclass(frozen=True)
class Need:
    """The least value of a limit, and its names: in a sentence, and in Slurm and slurmd's unit."""

    phrase: str
    least: int  # bytes, or files
    name: str


_NEEDS = {
    "stack": Need("the stack is", 8 << 20, "STACK"),
    "nofile": Need("open files are", 4096, "NOFILE"),
    "shm": Need("/dev/shm is", 1 << 30, ""),
}


def limits(slurm: bool = True) -> dict[str, tuple[int, str]]:
    """Return limit -> (least value in bytes or files, line for a smaller value). The line has `{value}` and `{user}`.

    Locked memory has no least value: RDMA wants it unlimited.
    """
    lines = {
        "memlock": (
            0,
            f"locked memory is limited to {{value}}, and {{user}} needs unlimited: {_remedy('MEMLOCK', slurm)}",
        )
    }
    for limit, need in _NEEDS.items():
        least = str(need.least) if limit == "nofile" else _size(need.least)
        line = f"{need.phrase} limited to {{value}}, and {{user}} needs {least} or more: {_remedy(need.name, slurm)}"
        lines[limit] = (need.least, line)
    return lines


def too_small(facts: NetworkFacts, nodes: int, slurm: bool = True) -> Iterator[str]:
    """Yield a line for each limit that is too small for a node's hardware, in a job on `nodes` nodes.

    The line has the value, the least value, and who can change it.
    """
    fabric = fast(facts) if nodes > 1 else ""
    if not fabric and len(facts.gpus) < 2:
        return
    for limit, (least, line) in limits(slurm).items():
        value = facts.limits.get(limit, "unlimited")
        if limit == "memlock" and fabric:
            memory = facts.limits.get("memory", "")
            least = int(memory) // 2 if memory.isdecimal() else 0
        if value.isdecimal() and int(value) < least:
            text = value if limit == "nofile" else _size(value)
            yield line.format(value=text, user=fabric or f"NCCL with {len(facts.gpus)} GPUs")


def _remedy(name: str, slurm: bool) -> str:
    if not name:
        return "an admin makes it larger: mount -o remount,size=50% /dev/shm"
    if not slurm:
        return f"an admin of that machine raises {name.lower()} in /etc/security/limits.conf"
    units = f"an admin sets Limit{name}=infinity for slurmd, or PropagateResourceLimitsExcept={name} in slurm.conf"
    return f"{units}; PAM's limits are not those of a job"


def _size(value: str | int) -> str:
    number, units = int(value), ["bytes", "kB", "MB", "GB", "TB"]
    while number >= 1024 and len(units) > 1:
        number, units = number // 1024, units[1:]
    return f"{number} {units[0]}"

"""Read the facts of a node's networks, adapters, GPUs and limits (network_facts.sh). Reads no file."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TypeVar

from mnrun.facts import Fact
from mnrun.record import Record

# The path of a device on the PCI bus: its root, every bridge on the way, and the device last.
PciPath = tuple[str, ...]
T = TypeVar("T")
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


class Route(Record):
    """A route: the NIC through which a network is reached."""

    network: int
    mask: int
    nic: str


class Gid(Record):
    """An entry of a RoCE port's table of addresses."""

    number: int
    version: str
    address: str  # the address in IPv4, or ""
    nic: str


class Hca(Record):
    """A port of an adapter for RDMA."""

    name: str
    port: int
    active: bool
    rate: float  # Gb/s
    kind: str  # InfiniBand, RoCE or EFA
    model: int = 0  # PCI's device id
    path: PciPath = ()
    gids: tuple[Gid, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}:{self.port}"


class NetworkFacts(Record):
    """The networks, adapters, GPUs and limits of one node."""

    nics: Mapping[str, Nic] = {}
    routes: tuple[Route, ...] = ()  # the narrowest first
    hcas: tuple[Hca, ...] = ()
    gpus: tuple[PciPath, ...] = ()
    slingshot: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()  # verbs, gdrcopy, peermem, dmabuf
    kernel: str = ""  # its release
    limits: Mapping[str, str] = {}

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
    subjects: dict[str, list[Fact]] = {}
    for fact in facts:
        subjects.setdefault(fact.subject, []).append(fact)

    def read(subject: str, item: Callable[[str, str], T]) -> Iterator[T]:
        for fact in subjects.get(subject, ()):
            with suppress(ValueError, KeyError):
                yield item(fact.name, fact.value)

    addresses: dict[str, list[str]] = {}
    for nic, address in read("address", lambda name, value: (name, str(ipaddress.IPv4Interface(_first(value))))):
        addresses.setdefault(nic, []).append(address)
    gids: dict[str, list[Gid]] = {}
    for port, gid in read("gid", _gid):
        gids.setdefault(port, []).append(gid)
    return NetworkFacts(
        {nic.name: replace(nic, addresses=tuple(addresses.get(nic.name, ()))) for nic in read("nic", _nic)},
        tuple(sorted(read("route", _route), key=lambda route: -route.mask)),
        tuple(hca._replace(gids=tuple(gids.get(str(hca), ()))) for hca in read("hca", _hca)),
        tuple(read("gpu", lambda _, value: _pci_path(_pairs(value).get("pci", "")))),
        tuple(read("cxi", lambda name, _: name)),
        frozenset(read("feature", lambda name, _: name)),
        next(read("kernel", lambda _, value: value), ""),
        dict(read("limit", lambda name, value: (name, _first(value)))),
    )


def of_nodes(reports: dict[str, list[Fact]]) -> dict[str, NetworkFacts]:
    """Return the networks of each node, and take its facts away. For thousands of nodes, both would fill the memory."""
    return {node: network_facts(reports.pop(node)) for node in tuple(reports)}


def _pairs(value: str) -> dict[str, str]:
    """Return a value of the form KEY=VALUE KEY=VALUE…"""
    return dict(word.partition("=")[::2] for word in value.split())


def _first(value: str) -> str:
    first, *_ = value.split()
    return first


def _route(name: str, value: str) -> Route:
    words = value.split()
    return Route(*_network(name), dict(zip(words, words[1:]))["dev"])


@cache  # thousands of nodes have the same routes
def _network(name: str) -> tuple[int, int]:
    network = ipaddress.IPv4Network("0.0.0.0/0" if name == "default" else name)
    return int(network.network_address), int(network.netmask)


def _nic(name: str, value: str) -> Nic:
    pairs = _pairs(value)
    speed = pairs.get("speed", "")
    return Nic(name, pairs.get("kind", "virtual"), pairs.get("state", ""), int(speed) if speed.isdecimal() else 0)


def _gid(name: str, value: str) -> tuple[str, Gid]:
    """Return the port of a table's entry, as Hca names it, and the entry."""
    pairs = _pairs(value)
    address = ipaddress.IPv6Address(pairs["gid"]).ipv4_mapped
    gid = Gid(int(pairs["index"]), pairs.get("type", ""), str(address or ""), pairs.get("ndev", ""))
    return f"{name}:{pairs['port']}", gid


def _hca(name: str, value: str) -> Hca:
    pairs = _pairs(value)
    kinds = {"InfiniBand": INFINIBAND, "Ethernet": ROCE}
    return Hca(
        name,
        int(pairs.get("port") or 1),
        pairs.get("state") == "ACTIVE",
        float(pairs.get("rate") or 0),
        EFA if pairs.get("driver") == "efa" else kinds.get(pairs.get("link", ""), ""),
        int(pairs.get("id") or "0", 16),
        _pci_path(pairs.get("pci", "")),
    )


@cache  # and the same slots
def _pci_path(pci: str) -> PciPath:
    return tuple(pci.split("/")) if pci else ()


def fast(facts: NetworkFacts) -> str:
    """Return the fast transport that a program can use on a node: InfiniBand, RoCE, EFA, Slingshot, or ""."""
    if facts.slingshot:
        return SLINGSHOT
    kinds = {hca.kind for hca in facts.usable}
    return next((kind for kind in (EFA, INFINIBAND, ROCE) if kind in kinds), "")


def common_steps(first: PciPath, second: PciPath) -> int:
    """Return how many steps of their ways two devices share: 0 is another root, 1 the root alone, more a switch or a
    port."""
    steps = 0
    for step, other_step in zip(first, second):
        if step != other_step:
            break
        steps += 1
    return steps


class Need(Record):
    """The least value of a limit, or 0 for unlimited, and its names: in a sentence, and as systems call it."""

    phrase: str
    least: int  # bytes, or files
    name: str


_NEEDS = {
    "memlock": Need("locked memory is", 0, "MEMLOCK"),  # RDMA wants it unlimited
    "stack": Need("the stack is", 8 << 20, "STACK"),
    "nofile": Need("open files are", 4096, "NOFILE"),
    "shm": Need("/dev/shm is", 1 << 30, ""),
}


def limits(remedy: str) -> dict[str, tuple[int, str]]:
    """Return limit -> (least value in bytes or files, line for a smaller one). The line has `{value}` and `{user}`."""
    lines = {}
    for limit, need in _NEEDS.items():
        least = f"{need.least if limit == 'nofile' else _size(need.least)} or more" if need.least else "unlimited"
        line = f"{need.phrase} limited to {{value}}, and {{user}} needs {least}: {_remedy(need.name, remedy)}"
        lines[limit] = (need.least, line)
    return lines


def too_small(facts: NetworkFacts, nodes: int, remedy: str = "") -> Iterator[str]:
    """Yield a line for each limit that is too small for a node's hardware, in a job on `nodes` nodes.

    The line has the value, the least value, and who can change it. `remedy` is the scheduler's, in which `{name}` is
    the name of the limit.
    """
    fabric = fast(facts) if nodes > 1 else ""
    if not fabric and len(facts.gpus) < 2:
        return
    for limit, (least, line) in limits(remedy).items():
        value = facts.limits.get(limit, "unlimited")
        if limit == "memlock" and fabric:
            memory = facts.limits.get("memory", "")
            least = int(memory) // 2 if memory.isdecimal() else 0
        if value.isdecimal() and int(value) < least:
            text = value if limit == "nofile" else _size(value)
            yield line.format(value=text, user=fabric or f"NCCL with {len(facts.gpus)} GPUs")


def _remedy(name: str, remedy: str) -> str:
    if not name:
        return "an admin makes it larger: mount -o remount,size=50% /dev/shm"
    if remedy:
        return remedy.format(name=name)
    return f"an admin of that machine raises {name.lower()} in /etc/security/limits.conf"


def _size(value: str | int) -> str:
    number, units = int(value), ["bytes", "kB", "MB", "GB", "TB"]
    while number >= 1024 and len(units) > 1:
        number, units = number // 1024, units[1:]
    return f"{number} {units[0]}"

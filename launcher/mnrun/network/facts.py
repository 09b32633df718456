"""Parse a node's lines about its networks, adapters, GPUs and limits (network_facts.sh). Reads no file.

nic NAME kind= state= [speed= lower= numa= pci=]       address NIC A.B.C.D/LENGTH       route TO [via A] dev NIC
hca NAME port= state= rate= link= [id= nics= driver= numa= pci=]      gid HCA port= index= gid= type= ndev=
gpu ADDRESS [numa= pci=]       cxi NAME [numa= pci=]
have verbs|gdrcopy|peermem|dmabuf|kernel=…             limit NAME BYTES|unlimited
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache

# The place of a device on the PCI bus: its root, every bridge on the way, and the device last.
Place = tuple[str, ...]
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
        return any(own.partition("/")[0] == address for own in self.addresses)

    @property
    def networks(self) -> tuple[str, ...]:
        return tuple(str(ipaddress.IPv4Interface(address).network) for address in self.addresses)


@dataclass(frozen=True)
class Route:
    """A route: the NIC through which a network is reached."""

    network: int
    mask: int
    nic: str


@dataclass(frozen=True)
class Gid:
    """An entry of a RoCE port's table of addresses."""

    index: int
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
class Facts:
    """The facts of one node."""

    nics: Mapping[str, Nic] = field(default_factory=dict)
    routes: tuple[Route, ...] = ()  # the narrowest first
    hcas: tuple[Hca, ...] = ()
    gpus: tuple[Place, ...] = ()
    slingshot: tuple[str, ...] = ()
    have: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def usable(self) -> tuple[Hca, ...]:
        """Return the ports that a program can use now."""
        return tuple(hca for hca in self.hcas if hca.active) if "verbs" in self.have else ()

    def way(self, address: str) -> Nic | None:
        """Return the NIC through which an address is reached."""
        number = int(ipaddress.IPv4Address(address))
        route = next((route for route in self.routes if number & route.mask == route.network), None)
        return self.nics.get(route.nic) if route else None


def parse(lines: Iterable[str]) -> Facts:
    """Return the facts in these lines. A line of another format is skipped."""
    return _parsed("\t".join(lines))  # guard.sh joins several lines with tabs


@cache  # callers ask twice, and thousands of nodes take seconds
def _parsed(lines: str) -> Facts:
    said = _Said()
    for line in lines.split("\t"):
        kind, _, rest = line.strip().partition(" ")
        name, _, more = rest.partition(" ")
        with suppress(ValueError, KeyError):
            said.take(kind, name, more.split())
    return said.facts()


class _Said:
    """The lines so far: the facts of one NIC, or of one port, stand in several."""

    def __init__(self) -> None:
        self.nics: dict[str, dict[str, str]] = {}
        self.addresses: dict[str, list[str]] = {}
        self.routes: list[Route] = []
        self.hcas: list[Hca] = []
        self.gids: dict[str, list[Gid]] = {}
        self.gpus: list[Place] = []
        self.slingshot: list[str] = []
        self.have: dict[str, str] = {}
        self.limits: dict[str, str] = {}

    def take(self, kind: str, name: str, words: list[str]) -> None:
        values = dict(word.partition("=")[::2] for word in words)
        if kind == "nic":
            self.nics[name] = values
        elif kind == "address":
            self.addresses.setdefault(name, []).append(str(ipaddress.IPv4Interface(words[0])))
        elif kind == "route":
            network = ipaddress.IPv4Network("0.0.0.0/0" if name == "default" else name)
            self.routes.append(Route(int(network.network_address), int(network.netmask), words[words.index("dev") + 1]))
        elif kind == "hca":
            self.hcas.append(_hca(name, values))
        elif kind == "gid":
            self.gids.setdefault(f"{name}:{values['port']}", []).append(_gid(values))
        elif kind == "gpu":
            self.gpus.append(_place(values))
        elif kind == "cxi":
            self.slingshot.append(name)
        elif kind == "have":
            self.have.update([name.partition("=")[::2]])
        elif kind == "limit" and words:
            self.limits[name] = words[0]

    def facts(self) -> Facts:
        return Facts(
            {name: _nic(name, values, self.addresses.get(name, ())) for name, values in self.nics.items()},
            tuple(sorted(self.routes, key=lambda route: -route.mask)),
            tuple(replace(hca, gids=tuple(self.gids.get(str(hca), ()))) for hca in self.hcas),
            tuple(self.gpus),
            tuple(self.slingshot),
            self.have,
            self.limits,
        )


def _nic(name: str, values: Mapping[str, str], addresses: Iterable[str]) -> Nic:
    speed = values.get("speed", "")
    return Nic(
        name,
        values.get("kind", "virtual"),
        values.get("state", ""),
        int(speed) if speed.isdecimal() else 0,
        tuple(addresses),
    )


def _gid(values: Mapping[str, str]) -> Gid:
    address = ipaddress.IPv6Address(values["gid"]).ipv4_mapped
    return Gid(
        int(values["index"]), values.get("type", ""), "" if address is None else str(address), values.get("ndev", "")
    )


def _hca(name: str, values: Mapping[str, str]) -> Hca:
    kinds = {"InfiniBand": INFINIBAND, "Ethernet": ROCE}
    return Hca(
        name,
        int(values.get("port") or 1),
        values.get("state") == "ACTIVE",
        float(values.get("rate") or 0),
        EFA if values.get("driver") == "efa" else kinds.get(values.get("link", ""), ""),
        int(values.get("id") or "0", 16),
        _place(values),
    )


def _place(values: Mapping[str, str]) -> Place:
    return tuple(values["pci"].split("/")) if values.get("pci") else ()


def fast(facts: Facts) -> str:
    """Return the fast transport that a program can use on a node: InfiniBand, RoCE, EFA, Slingshot, or ""."""
    if facts.slingshot:
        return SLINGSHOT
    kinds = {hca.kind for hca in facts.usable}
    return next((kind for kind in (EFA, INFINIBAND, ROCE) if kind in kinds), "")


def shared(one: Place, other: Place) -> int:
    """Return how many steps of their ways two devices share: 0 is another root, 1 the root alone, more a switch or a
    port."""
    steps = 0
    for mine, theirs in zip(one, other):
        if mine != theirs:
            break
        steps += 1
    return steps


@dataclass(frozen=True)
class Need:
    """The least value of a limit, and its names: in a sentence, and in Slurm and slurmd's unit."""

    called: str
    least: int  # bytes, or files
    name: str


_NEEDS = {
    "stack": Need("the stack is", 8 << 20, "STACK"),
    "nofile": Need("open files are", 4096, "NOFILE"),
    "shm": Need("/dev/shm is", 1 << 30, ""),
}


def limits(slurm: bool = True) -> dict[str, tuple[int, str]]:
    """Return limit -> (least value in bytes or files, line for a smaller value). The line has `{found}` and `{what}`.

    Locked memory has no least value: RDMA wants it unlimited.
    """
    lines = {
        "memlock": (
            0,
            f"locked memory is limited to {{found}}, and {{what}} needs unlimited: {_remedy('MEMLOCK', slurm)}",
        )
    }
    for limit, need in _NEEDS.items():
        least = str(need.least) if limit == "nofile" else _size(need.least)
        line = f"{need.called} limited to {{found}}, and {{what}} needs {least} or more: {_remedy(need.name, slurm)}"
        lines[limit] = (need.least, line)
    return lines


def too_small(facts: Facts, nodes: int, slurm: bool = True) -> Iterator[str]:
    """Yield a line for each limit that is too small for a node's hardware, in a job on `nodes` nodes.

    The line has the value, the least value, and who can change it.
    """
    fabric = fast(facts) if nodes > 1 else ""
    if not fabric and len(facts.gpus) < 2:
        return
    for limit, (least, line) in limits(slurm).items():
        value = facts.limits.get(limit, "unlimited")
        if limit == "memlock" and fabric:
            least = int(facts.limits.get("memory") or 0) // 2
        if value.isdecimal() and int(value) < least:
            found = value if limit == "nofile" else _size(value)
            yield line.format(found=found, what=fabric or f"NCCL with {len(facts.gpus)} GPUs")


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

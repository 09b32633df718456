"""Choose the words for NCCL, UCX, libfabric and the MPIs by the networks and adapters of a job's nodes. Reads no file.

There is no choice with one node, and hardly one with one network and no adapter. UCX_TLS is never set: UCX finds by
itself which of its transports work, and a list switches off each that it does not name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from mnrun import nodeset
from mnrun.environment import quote
from mnrun.jobspec import JobSpec, Variable
from mnrun.network.facts import EFA, INFINIBAND, ROCE, Hca, NetworkFacts, Nic, common_steps, fast, too_small
from mnrun.network.pinned import lacking
from mnrun.record import Record

Nodes = Mapping[str, NetworkFacts]
PEERS = 8  # this many of the others tell which NIC leads to all of them


class Choice(Record):
    """A variable of every rank, unless somebody else sets it or its rival."""

    name: str
    value: str
    why: str
    by_node: Mapping[str, str] = {}  # node -> its own value, if that differs

    @property
    def rival(self) -> str:
        """Return the variable that excludes this one: Open MPI takes networks to include or to exclude, and not
        both."""
        return self.name.replace("if_include", "if_exclude")


class Network(Record):
    """The NIC of each node that carries the route between them."""

    nics: Mapping[str, Nic]
    why: str
    cidr: str = ""  # the network of all NICs, if they are in one

    @property
    def speed(self) -> int:
        """Return the speed of the slowest NIC in Mb/s, or 0 if one has no known speed."""
        return min(nic.speed for nic in self.nics.values())


# Variables for data, and for the starters' own messages. For the latter, the known route is enough.
# The libraries of the first two look up the node's own name, for which Debian writes 127.0.1.1. Hydra's mpiexec gives
# its own name to the other nodes, which may not know it. So these are set without a choice, too.
_BY_NAME = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_DATA = (*_BY_NAME, "FI_TCP_IFACE")
_OPENMPI_DATA = ("OMPI_MCA_btl_tcp_if_include",)
_OPENMPI_CONTROL = ("OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include")  # ORTE's, PRRTE's


def choose(nodes: Nodes, addresses: Mapping[str, str]) -> tuple[Choice, ...]:
    """Return the choices for a job. `addresses` is node -> the address by which the others know it, or ""."""
    if len(nodes) < 2:
        return ()
    network = route_network(nodes, addresses)
    return (*_of_network(nodes, network), *_of_adapters(nodes, network))


def route_network(nodes: Nodes, addresses: Mapping[str, str]) -> Network | None:
    """Return the NIC of each node through which it reaches the others, or None if that is not known."""
    targets = [address for address in addresses.values() if _is_ipv4(address)]
    if len(set(targets)) == len(nodes):
        peers = targets[:PEERS]
        routes = {node: [facts.nic_to(a) for a in peers if a != addresses[node]] for node, facts in nodes.items()}
        nics = {node: peer_nics[0] for node, peer_nics in routes.items() if peer_nics[0] and len(set(peer_nics)) == 1}
        if len(nics) == len(nodes):
            nets = {net for nic in nics.values() for net in nic.networks}  # few, however many nodes there are
            common = [net for net in nets if _all_in(targets, net)]
            return Network(nics, "carries the route between the nodes", common[0] if len(common) == 1 else "")
    return max(_all_common(nodes), key=lambda network: network.speed, default=None)


def data_network(nodes: Nodes, route: Network) -> Network:
    """Return the network for data: the one of the route, or a faster one that all nodes are in, too."""
    best = max(_all_common(nodes), key=lambda network: network.speed, default=route)
    if not 0 < route.speed < best.speed:
        return route
    return best._replace(why=f"is in the fastest network of all nodes, with {best.speed / 1000:g} Gb/s")


def _is_ipv4(address: str) -> bool:
    """Return whether a node's word is an address by which `nic_to` can look. A node reached by IPv6 may give that."""
    with suppress(ValueError):
        return bool(ipaddress.IPv4Address(address))
    return False


def _all_in(addresses: Iterable[str], net: str) -> bool:
    network = ipaddress.IPv4Network(net)
    return all(ipaddress.IPv4Address(address) in network for address in addresses)


def _real(facts: NetworkFacts) -> list[Nic]:
    return [nic for nic in facts.nics.values() if nic.kind != "loopback" and nic.addresses]


def _all_common(nodes: Nodes) -> list[Network]:
    first = next(iter(nodes.values()))
    networks = (_common(nodes, net) for nic in _real(first) for net in nic.networks)
    return [network for network in networks if network is not None]


def _common(nodes: Nodes, net: str) -> Network | None:
    """Return a network that all nodes are in, each with an address of its own."""
    nics: dict[str, Nic] = {}
    addresses: set[str] = set()
    for node, facts in nodes.items():
        for nic in _real(facts):
            if net in nic.networks and nic.state in ("up", "unknown"):
                nics[node] = nic
                addresses.add(nic.addresses[nic.networks.index(net)])
                break
    if len(addresses) < len(nodes):
        return None
    return Network(nics, "is in a network of all nodes", net)


def _of_network(nodes: Nodes, network: Network | None) -> Iterator[Choice]:
    """Yield the choice of a NIC for each library that would try them all. NICs of containers and virtual machines
    lead nowhere."""
    if network is None:
        return
    iface = _by_name(nodes, network, "HYDRA_IFACE")
    hydra = [] if iface.by_node else [iface]  # Hydra takes one name for all nodes
    if not _others(nodes, network):
        yield from (*(_by_name(nodes, network, name) for name in _BY_NAME), *hydra)
        return
    data = data_network(nodes, network)
    names = {node: nic.name for node, nic in data.nics.items()}
    # NCCL takes a name for a prefix, unless = is in front of it (NCCL's documentation, NCCL_SOCKET_IFNAME).
    exact = any(other != name and other.startswith(name) for node, name in names.items() for other in nodes[node].nics)
    yield _by_name(nodes, data, "NCCL_SOCKET_IFNAME", "=" if exact else "")
    for name in _DATA:
        yield _by_name(nodes, data, name)
    if not any(facts.usable for facts in nodes.values()):
        yield _by_name(nodes, data, "UCX_NET_DEVICES")
    yield from hydra
    for name in (*_OPENMPI_DATA, *_OPENMPI_CONTROL):
        choice = _by_name(nodes, data if name in _OPENMPI_DATA else network, name)
        where = (data if name in _OPENMPI_DATA else network).cidr if choice.by_node else choice.value
        if where:
            yield choice._replace(value=where, by_node={})


def _by_name(nodes: Nodes, network: Network, variable: str, mark: str = "") -> Choice:
    """Return the choice that names each node's NIC in this network."""
    names = {node: nic.name for node, nic in network.nics.items()}
    first = next(iter(names.values()))
    cidr = f" ({network.cidr})" if network.cidr else ""
    others = _others(nodes, network)
    why = f"{first} {network.why}{cidr}" + (f"; not {', '.join(others)}" if others else "")
    return Choice(variable, mark + first, why, {node: mark + name for node, name in names.items() if name != first})


def _others(nodes: Nodes, network: Network) -> list[str]:
    """Return the other NICs with addresses, each with a remark."""
    remarks: dict[str, str] = {}
    for node, facts in nodes.items():
        for nic in _real(facts):
            if nic.name != network.nics[node].name and nic.name not in remarks:
                remarks[nic.name] = _remark(nodes, nic)
    return [f"{name} ({remark})" for name, remark in remarks.items()]


def _remark(nodes: Nodes, nic: Nic) -> str:
    everywhere = [facts.nics[nic.name] for facts in nodes.values() if nic.name in facts.nics]
    address = nic.addresses[0].partition("/")[0]
    if len(everywhere) > 1 and all(other.has(address) for other in everywhere):
        return f"{address} on every node" if len(everywhere) == len(nodes) else f"{address} on several nodes"
    return f"down, {nic.addresses[0]}" if nic.state == "down" else nic.addresses[0]


def _of_adapters(nodes: Nodes, network: Network | None) -> Iterator[Choice]:
    """Yield the choices for adapters of the kind that all nodes have."""
    kinds = {node: fast(facts) for node, facts in nodes.items()}
    if all(facts.slingshot for facts in nodes.values()):
        yield from _SLINGSHOT
        return
    if set(kinds.values()) == {EFA}:
        yield from _efa(nodes)
        return
    if not any(facts.hcas for facts in nodes.values()):
        return
    ports = {node: best_ports(facts) for node, facts in nodes.items()}
    links = {hcas[0].kind if hcas else "" for hcas in ports.values()}
    if len(links) > 1 or links == {""}:
        lacks = [f"{node} has no active InfiniBand or RoCE port" for node, hcas in ports.items() if not hcas]
        why = lacks[0] if lacks else "InfiniBand on some nodes and RoCE on others"
        yield Choice("NCCL_IB_DISABLE", "1", f"{why}, and all ranks must use the same way")
        return
    yield from _of_hcas(nodes, ports, network)


def best_ports(facts: NetworkFacts) -> tuple[Hca, ...]:
    """Return the ports for ranks to use: of one kind, the fastest, and nearest to some GPU if there are any."""
    usable = [hca for hca in facts.usable if hca.kind in (INFINIBAND, ROCE)]
    usable = [hca for hca in usable if hca.kind == INFINIBAND] or usable
    fastest = max((hca.rate for hca in usable), default=0)
    usable = [hca for hca in usable if hca.rate == fastest]
    near = {str(hca) for gpu in facts.gpus for hca in _nearest(usable, gpu)}
    return tuple(hca for hca in usable if str(hca) in near or not near)


def _nearest(hcas: Iterable[Hca], gpu: tuple[str, ...]) -> list[Hca]:
    steps_by_hca = {hca: common_steps(hca.path, gpu) for hca in hcas}
    best = max(steps_by_hca.values(), default=0)
    return [hca for hca, steps in steps_by_hca.items() if steps == best]


def _of_hcas(nodes: Nodes, ports: Mapping[str, tuple[Hca, ...]], network: Network | None) -> Iterator[Choice]:
    names = {node: ",".join(map(str, hcas)) for node, hcas in ports.items()}
    head = next(iter(nodes))
    by_node = {node: name for node, name in names.items() if name != names[head]}
    first = ports[head]
    gpus = ", the nearest to its GPUs" if nodes[head].gpus else ""
    others = [f"{hca} ({_less(hca, first[0])})" for hca in nodes[head].hcas if hca not in first]
    why = f"active {first[0].kind} at {first[0].rate:g} Gb/s{gpus}" + (f"; not {', '.join(others)}" if others else "")
    yield Choice("NCCL_IB_HCA", f"={names[head]}", why, {node: f"={name}" for node, name in by_node.items()})
    if any(len(facts.usable) > len(ports[node]) for node, facts in nodes.items()):
        yield Choice("UCX_NET_DEVICES", names[head], why, by_node)
    if first[0].kind == ROCE:
        yield from _gid(ports, network)
    direct = [name for name in ("peermem", "dmabuf") if all(name in facts.features for facts in nodes.values())]
    if direct and all(_beside(nodes[node], hcas) for node, hcas in ports.items()):
        why = {"peermem": "nvidia_peermem is loaded", "dmabuf": "the driver has dmabuf"}[direct[0]]
        yield Choice("NCCL_NET_GDR_LEVEL", "PXB", f"{why}, and every GPU has an adapter behind its own PCIe switches")


def _less(hca: Hca, best: Hca) -> str:
    if not hca.active:
        return "down"
    if hca.kind != best.kind:
        return hca.kind or "of another kind"
    return f"{hca.rate:g} Gb/s" if hca.rate < best.rate else "far from the GPUs"


def _beside(facts: NetworkFacts, hcas: tuple[Hca, ...]) -> bool:
    """Return whether each GPU has an adapter that it reaches without the CPU."""
    return bool(facts.gpus) and all(any(common_steps(hca.path, gpu) > 1 for hca in hcas) for gpu in facts.gpus)


def _gid(ports: Mapping[str, tuple[Hca, ...]], network: Network | None) -> Iterator[Choice]:
    """Yield the index of the RoCE v2 address in IPv4, which routers know. Of several, the one in the nodes' network
    counts."""
    indexes: set[int] = set()
    for hca in (hca for hcas in ports.values() for hca in hcas):
        gids = [gid for gid in hca.gids if gid.version == "v2" and gid.address]
        inside = [gid for gid in gids if network and network.cidr and _all_in((gid.address,), network.cidr)]
        best = inside or gids
        if not best:
            return
        indexes.add(best[0].number)
    if len(indexes) == 1:
        nic = best[0].nic
        why = f"RoCE v2 with the address of {nic} ({best[0].address})"
        yield Choice("NCCL_IB_GID_INDEX", str(best[0].number), why)


# FI_PROVIDER is not among them. libfabric prefers efa and cxi by itself (src/fabric.c). With the variable, a program
# whose libfabric lacks them does not start.
def _efa(nodes: Nodes) -> Iterator[Choice]:
    if all(hca.model > 0xEFA0 for facts in nodes.values() for hca in facts.usable):
        why = "this EFA supports RDMA reads and writes, and the first generation does not"
        yield Choice("FI_EFA_USE_DEVICE_RDMA", "1", why)
    if any(_version(facts.kernel) < (5, 15) for facts in nodes.values()):
        yield Choice("FI_EFA_FORK_SAFE", "1", "kernels before 5.15 lose registered memory when a program forks")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.partition("-")[0].split(".")[:2] if part.isdecimal())


_WHY = "the usual setting at Slingshot sites"
_SLINGSHOT = (
    Choice("FI_CXI_DISABLE_HOST_REGISTER", "1", f"{_WHY}: CUDA calls within libfabric may lock up"),
    Choice("FI_CXI_DEFAULT_CQ_SIZE", "131072", f"{_WHY}: NCCL's many messages overflow the usual one"),
    Choice("FI_MR_CACHE_MONITOR", "userfaultfd", f"{_WHY}: the usual one and NCCL's threads may lock up"),
    Choice("NCCL_CROSS_NIC", "1", f"{_WHY}: every NIC reaches every other"),
    Choice("NCCL_NET_GDR_LEVEL", "PHB", f"{_WHY}: its NICs hang on the GPUs' own CPU"),
)


def of_job(spec: JobSpec, nodes: Nodes, addresses: Mapping[str, str]) -> tuple[Choice, ...]:
    """Return the choices for a job on these nodes, without the variables that the job sets itself."""
    if spec.start.fabric == "off" or set(nodes) != set(addresses):
        return ()
    command = spec.program.command if spec.program.once else ()
    names = _job_variables(spec.program.env, (*spec.start.mpi_args, *command))
    return tuple(choice for choice in choose(nodes, addresses) if choice.name not in names)


def _job_variables(env: Iterable[Variable], words: Iterable[str]) -> set[str]:
    """Return the variables that a job sets itself, or tells its mpirun. A job that excludes networks includes none."""
    names = {variable.name for variable in env}
    names |= {name.replace("exclude", "include") for name in names if "if_exclude" in name}
    return names | {*_OPENMPI_DATA, *_OPENMPI_CONTROL} if "if_exclude" in " ".join(words) else names


def reasons(choices: Iterable[Choice]) -> list[str]:
    """Return a line for each reason, with all the variables that it explains."""
    names: dict[tuple[str, str], list[str]] = {}
    for choice in choices:
        value = ", ".join([choice.value, *(f"{value} on {node}" for node, value in choice.by_node.items())])
        names.setdefault((value, choice.why), []).append(choice.name)
    return [f"{', '.join(alike)} = {value}: {why}" for (value, why), alike in names.items()]


def warnings(spec: JobSpec, nodes: Nodes, remedy: str = "") -> list[str]:
    """Return a line for each limit that is too small for these nodes, and for each name in the job that they lack."""
    limits = ((node, line) for node, facts in nodes.items() for line in too_small(facts, len(nodes), remedy))
    return [f"{names}: {line}" for names, line in nodeset.grouped((*limits, *lacking(spec.program.env, nodes)))]


def shell(choices: Iterable[Choice]) -> str:
    """Return fabric.env: the variables that a rank's shell sets on its node, unless they are set."""
    lines, by_node = ["# shellcheck shell=sh disable=SC2154"], False
    for choice in choices:
        if not choice.by_node:
            either = "".join(f"${{{name}+x}}" for name in dict.fromkeys((choice.name, choice.rival)))
            lines.append(f'[ -n "{either}" ] || export {choice.name}={quote(choice.value)}')
            continue
        # An MPI may have brought another node's value along. So that value counts as unset.
        values = " | ".join(quote(value) for value in dict.fromkeys((choice.value, *choice.by_node.values())))
        each = "".join(f"{node}) export {choice.name}={quote(value)} ;; " for node, value in choice.by_node.items())
        export = f"case $mnrun_self in {each}*) export {choice.name}={quote(choice.value)} ;; esac"
        lines.append(f'case "${{{choice.name}-}}" in "" | {values}) {export} ;; esac')
        by_node = True
    if by_node:
        lines.insert(1, 'read -r mnrun_self <"$mnrun_here/self"')
    return "\n".join(lines) + "\n"

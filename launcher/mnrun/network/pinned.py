"""Find NICs and adapters that a job names itself and that a node lacks. Its ranks would hang there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from mnrun import nodeset
from mnrun.jobspec import Variable
from mnrun.network.facts import NetworkFacts

# Variable -> whether a name in it is a prefix (NCCL's and UCX's documentation). Open MPI's names are whole.
_NICS = {
    "NCCL_SOCKET_IFNAME": True,
    "GLOO_SOCKET_IFNAME": False,
    "TP_SOCKET_IFNAME": False,
    "OMPI_MCA_btl_tcp_if_include": False,
    "OMPI_MCA_oob_tcp_if_include": False,
    "PRTE_MCA_prte_if_include": False,
    "FI_TCP_IFACE": False,
    "I_MPI_HYDRA_IFACE": False,
}
_ADAPTERS = {"NCCL_IB_HCA": True}
_EITHER = {"UCX_NET_DEVICES": False}


def lacking(env: Iterable[Variable], nodes: Mapping[str, NetworkFacts]) -> list[str]:
    """Return a line for each name in `env` that nodes lack."""
    lines: dict[str, list[str]] = {}
    for variable in env:
        for name, begins in _names(variable):
            for node, facts in nodes.items():
                devices = _devices(variable.name, facts)
                if not any(device.startswith(name) if begins else device == name for device in devices):
                    origin = f" ({variable.why})" if variable.why else ""
                    text = f"{variable.name}={variable.value}{origin}"
                    others = ", ".join(device for device in devices if not _is_loopback(device, facts))
                    line = f"{text}, but the node has no {name}: it has {others or 'none'}"
                    lines.setdefault(line, []).append(node)
    return [f"{nodeset.fold(names)}: {line}" for line, names in lines.items()]


def _names(variable: Variable) -> Iterator[tuple[str, bool]]:
    """Yield each name that a variable asks for, and whether it is a prefix. Excluded names are left out."""
    begins = {**_NICS, **_ADAPTERS, **_EITHER}.get(variable.name)
    value = variable.value or ""
    if begins is None or value.startswith("^") or value == "all":
        return
    begins = begins and not value.startswith("=")
    for word in value.lstrip("=").split(","):
        name = word.partition(":")[0].strip()
        if name and not re.match(r"[\d.]+(/\d+)?$", name):  # Open MPI takes networks, too
            yield name, begins


def _is_loopback(device: str, facts: NetworkFacts) -> bool:
    return device in facts.nics and facts.nics[device].kind == "loopback"


def _devices(variable: str, facts: NetworkFacts) -> list[str]:
    adapters = list(dict.fromkeys(hca.name for hca in facts.hcas))
    nics = list(facts.nics)
    return nics if variable in _NICS else adapters if variable in _ADAPTERS else [*adapters, *nics]

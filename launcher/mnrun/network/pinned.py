"""Find NICs and adapters that a job names itself and that a node lacks. Its ranks would hang there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from mnrun.jobspec import Variable
from mnrun.network.facts import NetworkFacts

# Variables that name devices: NICs, adapters, or either.
_NICS = (
    *("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "FI_TCP_IFACE", "I_MPI_HYDRA_IFACE"),
    *("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include"),
)
_ADAPTERS = ("NCCL_IB_HCA",)
_EITHER = ("UCX_NET_DEVICES",)
# In these, a name is a prefix (NCCL's and UCX's documentation). Open MPI's names are whole.
_PREFIXES = ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")


def lacking(env: Iterable[Variable], nodes: Mapping[str, NetworkFacts]) -> Iterator[tuple[str, str]]:
    """Yield (node, line) for each name in `env` that a node lacks."""
    for variable in env:
        for name, begins in _names(variable):
            for node, facts in nodes.items():
                devices = _devices(variable.name, facts)
                if not any(device.startswith(name) if begins else device == name for device in devices):
                    origin = f" ({variable.why})" if variable.why else ""
                    text = f"{variable.name}={variable.value}{origin}"
                    loopback = {nic.name for nic in facts.nics.values() if nic.kind == "loopback"}
                    others = ", ".join(device for device in devices if device not in loopback)
                    yield node, f"{text}, but the node has no {name}: it has {others or 'none'}"


def _names(variable: Variable) -> Iterator[tuple[str, bool]]:
    """Yield each name that a variable asks for, and whether it is a prefix. Excluded names are left out."""
    value = variable.value or ""
    if variable.name not in (*_NICS, *_ADAPTERS, *_EITHER) or value.startswith("^") or value == "all":
        return
    begins = variable.name in _PREFIXES and not value.startswith("=")
    for word in value.lstrip("=").split(","):
        name = word.partition(":")[0].strip()
        if name and not re.match(r"[\d.]+(/\d+)?$", name):  # Open MPI takes networks, too
            yield name, begins


def _devices(variable: str, facts: NetworkFacts) -> list[str]:
    adapters = list(dict.fromkeys(hca.name for hca in facts.hcas))
    nics = list(facts.nics)
    return nics if variable in _NICS else adapters if variable in _ADAPTERS else [*adapters, *nics]

"""What a run has shown: where its ranks were, by what those on different nodes talked, and whether that is right. Pure.

Each node's guard says what NCCL, UCX and Open MPI have told there, in lines `TRANSPORT DEVICES LIBRARY`
(wrappers/network/transport_read.sh).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mnrun import nodeset
from mnrun.errors import Impossible, NodeError, RuntimeFailed
from mnrun.model import Layout

FAST, SLOW = "ib", "tcp"
THERE = "there"  # what a node has that is FAST, said where it used TCP
REMEDY = {
    FAST: "look at what mnrun plan says of the network, and at `ulimit -l` and /dev/infiniband in the container",
    SLOW: "leave --require out, or name its network: NCCL_IB_DISABLE=1, UCX_TLS=tcp,sm,self",
}


@dataclass(frozen=True)
class Used:
    """By what a library moved data between nodes: FAST or SLOW, and the devices that it named."""

    transport: str
    devices: tuple[str, ...]
    library: str

    def __str__(self) -> str:
        return f"{self.library} by {self.transport}" + (f" ({', '.join(self.devices)})" if self.devices else "")


Said = Mapping[str, Sequence[str]]  # what the guards said, by node


def used(said: Said) -> dict[Used, list[str]]:
    """What was used, and on which nodes."""
    found: dict[Used, list[str]] = {}
    for node, lines in said.items():
        for line in lines:
            transport, devices, library = line.split(" ", 2)
            what = Used(transport, () if devices == "-" else tuple(devices.split(",")), library)
            if transport != THERE:
                found.setdefault(what, []).append(node)
    return found


def summary(ranks: Mapping[str, int], said: Said) -> str:
    """The run in a line; of what not all nodes used alike, which did."""
    found = used(said)
    where = {what: "" if len(nodes) == len(said) else f" on {nodeset.fold(nodes)}" for what, nodes in found.items()}
    network = "; ".join(f"{what}{place}" for what, place in where.items())
    return f"{sum(ranks.values())} ranks on {nodeset.counts(ranks)}; {network or 'no word of a network'}"


def slow(said: Said) -> str:
    """What is to be said where TCP was used, and nodes have something faster; "" where all is well."""
    there = {node: line.split(" ")[1] for node, lines in said.items() for line in lines if line.startswith(THERE)}
    for what, nodes in used(said).items():
        wasted = {node: there[node].replace(",", ", ") for node in nodes if what.transport == SLOW and node in there}
        if wasted:
            return f"{what}, though there is faster: {nodeset.folded(wasted)}; {REMEDY[FAST]}"
    return ""


def all_came(layout: Layout, ranks: Mapping[str, Mapping[int, str]], alone: Sequence[str]) -> None:
    """`ranks`: node -> rank -> how many it thinks there are; `alone`: those that took themselves for the only one.

    Raises NodeError or RuntimeFailed where they are not those that were asked for: no silent single node, no silent
    singletons.
    """
    asked, came = dict(zip(layout.nodes, layout.ranks)), {node: len(found) for node, found in ranks.items()}
    if came != asked:
        raise NodeError(
            f"ranks started on {nodeset.counts(came)}, but {nodeset.counts(asked)} was asked for",
            "mpirun found other hosts or slots: look for settings of the image's own (openmpi-mca-params.conf)",
        )
    if alone:
        raise RuntimeFailed(
            f"{len(alone)} of {layout.ntasks} ranks took themselves for rank 0 of 1",
            "the image's MPI does not understand the starter: try --mode inside-out, or another --mpi",
        )
    sizes = {size for found in ranks.values() for size in found.values()}
    if sizes != {str(layout.ntasks)}:
        raise RuntimeFailed(f"ranks thought that there are {', '.join(sorted(sizes))} of them, not {layout.ntasks}")


def required(network: str, said: Said, nnodes: int) -> None:
    """Raises Impossible where the run was not by `network`, --require's; one node needs none."""
    if network == "any" or nnodes == 1:
        return
    if not said:
        what = f"--require {network}: neither NCCL nor UCX nor Open MPI has said by what it talked"
        raise Impossible(what, "leave it out where the program uses none of them, or sets how much they say")
    wrong = [f"{what} on {nodeset.fold(nodes)}" for what, nodes in used(said).items() if what.transport != network]
    if wrong:
        raise Impossible(f"--require {network}: {'; '.join(wrong)}", REMEDY[network])

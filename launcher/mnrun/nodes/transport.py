"""Judge a finished run: where its ranks ran, and how ranks on different nodes talked. Reads no file.

Each node's guard reports the words of NCCL, UCX and Open MPI there, in lines `TRANSPORT DEVICES LIBRARY`
(wrappers/network/transport_read.sh).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mnrun import nodeset
from mnrun.errors import Impossible, NodeError, RuntimeFailed
from mnrun.model import Layout

FAST, SLOW = "ib", "tcp"
THERE = "there"  # the word for a FAST network of a node that used TCP
REMEDY = {
    FAST: "check the network in mnrun plan, and `ulimit -l` and /dev/infiniband in the container",
    SLOW: "leave --require out, or name its network: NCCL_IB_DISABLE=1, UCX_TLS=tcp,sm,self",
}


@dataclass(frozen=True)
class Used:
    """The transport by which a library moved data between nodes, FAST or SLOW, and the devices that it named."""

    transport: str
    devices: tuple[str, ...]
    library: str

    def __str__(self) -> str:
        return f"{self.library} by {self.transport}" + (f" ({', '.join(self.devices)})" if self.devices else "")


Said = Mapping[str, Sequence[str]]  # node -> the lines of its guard


def used(said: Said) -> dict[Used, list[str]]:
    """Return each transport that was used, and its nodes."""
    found: dict[Used, list[str]] = {}
    for node, lines in said.items():
        for line in lines:
            transport, devices, library = line.split(" ", 2)
            what = Used(transport, () if devices == "-" else tuple(devices.split(",")), library)
            if transport != THERE:
                found.setdefault(what, []).append(node)
    return found


def summary(ranks: Mapping[str, int], said: Said) -> str:
    """Return the run in a line. If not all nodes used the same transport, the line names the nodes of each."""
    found = used(said)
    where = {what: "" if len(nodes) == len(said) else f" on {nodeset.fold(nodes)}" for what, nodes in found.items()}
    network = "; ".join(f"{what}{place}" for what, place in where.items())
    return f"{sum(ranks.values())} ranks on {nodeset.counts(ranks)}; {network or 'no network reported'}"


def slow(said: Said) -> str:
    """Return the warning that TCP was used although nodes have a faster network, or "" if all is well."""
    there = {node: line.split(" ")[1] for node, lines in said.items() for line in lines if line.startswith(THERE)}
    for what, nodes in used(said).items():
        wasted = {node: there[node].replace(",", ", ") for node in nodes if what.transport == SLOW and node in there}
        if wasted:
            return f"{what}, though a faster network exists: {nodeset.folded(wasted)}; {REMEDY[FAST]}"
    return ""


def all_came(
    layout: Layout, ranks: Mapping[str, Mapping[int, str]], alone: Sequence[str], without_mpi: bool = False
) -> None:
    """Raise NodeError or RuntimeFailed if the ranks are not those that were asked for.

    `ranks` is node -> rank -> the number of ranks as that rank knows it. `alone` has the ranks that took themselves for
    the only one. So a run on a single node, or of singletons, is never silent. `without_mpi`: mnrun started the ranks,
    since the image has no mpirun.
    """
    asked, came = dict(zip(layout.nodes, layout.ranks)), {node: len(found) for node, found in ranks.items()}
    if came != asked:
        raise NodeError(
            f"ranks started on {nodeset.counts(came)}, but {nodeset.counts(asked)} was asked for",
            "mpirun used other hosts or slots: look for settings in the image (openmpi-mca-params.conf)",
        )
    if alone:
        remedy = "the image's MPI and the starter do not match: try --mode inside-out, or another --mpi"
        if without_mpi:
            remedy = "the program uses an MPI whose mpirun is not in the image: try --mode outside-in"
        raise RuntimeFailed(f"{len(alone)} of {layout.ntasks} ranks ran as rank 0 of 1", remedy)
    sizes = {size for found in ranks.values() for size in found.values()}
    if sizes != {str(layout.ntasks)}:
        raise RuntimeFailed(f"ranks counted {', '.join(sorted(sizes))} ranks, not {layout.ntasks}")


def required(network: str, said: Said, nnodes: int) -> None:
    """Raise Impossible if the run did not use `network`, which is --require's. One node needs none."""
    if network == "any" or nnodes == 1:
        return
    if not said:
        what = f"--require {network}: neither NCCL nor UCX nor Open MPI has reported a network"
        raise Impossible(what, "leave it out if the program uses none of them, or sets their debug output itself")
    wrong = [f"{what} on {nodeset.fold(nodes)}" for what, nodes in used(said).items() if what.transport != network]
    if wrong:
        raise Impossible(f"--require {network}: {'; '.join(wrong)}", REMEDY[network])

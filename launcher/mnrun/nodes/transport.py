"""Judge a finished run: where its ranks ran, and how ranks on different nodes talked. Reads no file.

Each node's guard reports the words of NCCL, UCX and Open MPI there, in lines `TRANSPORT DEVICES LIBRARY`
(wrappers/network/transport_read.sh).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mnrun import nodeset
from mnrun.errors import Impossible, NodeError, RuntimeFailed
from mnrun.model import Plan
from mnrun.nodes.status import Roster
from mnrun.record import Record

FAST, SLOW = "ib", "tcp"
THERE = "there"  # the word for a FAST network of a node that used TCP
REMEDY = {
    FAST: "check the network in mnrun plan, and `ulimit -l` and /dev/infiniband in the container",
    SLOW: "leave --require out, or name its network: NCCL_IB_DISABLE=1, UCX_TLS=tcp,sm,self",
}


class TransportUse(Record):
    """The transport by which a library moved data between nodes, FAST or SLOW, and the devices that it named."""

    transport: str
    devices: tuple[str, ...]
    library: str

    def __str__(self) -> str:
        return f"{self.library} by {self.transport}" + (f" ({', '.join(self.devices)})" if self.devices else "")


Reports = Mapping[str, Sequence[str]]  # node -> the lines of its guard


def uses(reports: Reports) -> dict[TransportUse, list[str]]:
    """Return each transport that was used, and its nodes."""
    nodes_by_use: dict[TransportUse, list[str]] = {}
    for node, lines in reports.items():
        for line in lines:
            transport, devices, library = line.split(" ", 2)
            use = TransportUse(transport, () if devices == "-" else tuple(devices.split(",")), library)
            if transport != THERE:
                nodes_by_use.setdefault(use, []).append(node)
    return nodes_by_use


def summary(ranks: Mapping[str, int], reports: Reports, planned: int = 0, asked: bool = True) -> str:
    """Return the run in a line. If not all nodes used the same transport, the line names the nodes of each.

    One node has nobody to talk to, although NCCL names the network that it would have used. `planned` is the number of
    ranks that should have started, if it is known. `asked`: MPIs were asked for their network.
    """
    count = sum(ranks.values())
    short = count < planned
    who = f"{f'{count} of {planned} ranks' if short else nodeset.counted(count, 'rank')} on {nodeset.counts(ranks)}"
    if len(ranks) == 1 and not short:
        return f"{who}; one node needs no network"
    lines = []
    for use, nodes in uses(reports).items():
        where = "" if len(nodes) == len(reports) else f" on {nodeset.fold(nodes)}"
        lines.append(f"{use}{where}")
    network = "; ".join(lines)
    return f"{who}; {network or ('no network reported' if asked else 'a run with -v reports the network')}"


def slow(reports: Reports) -> str:
    """Return the warning that TCP was used although nodes have a faster network, or "" if all is well."""
    networks = {node: line.split(" ")[1] for node, lines in reports.items() for line in lines if line.startswith(THERE)}
    for use, nodes in uses(reports).items():
        idle = set(nodes) & set(networks) if use.transport == SLOW else ()
        wasted = {node: networks[node].replace(",", ", ") for node in nodes if node in idle}
        if wasted:
            return f"{use}, though a faster network exists: {nodeset.folded(wasted)}; {REMEDY[FAST]}"
    return ""


def check(plan: Plan, roster: Roster) -> None:
    """Raise LaunchError if a program that ended well had other ranks, or used another network, than was asked for."""
    if plan.counted:
        _check_ranks(plan, roster)
    check_network(plan.spec.start.require, roster.used, plan.layout.nnodes)


def _check_ranks(plan: Plan, roster: Roster) -> None:
    """Raise NodeError or RuntimeFailed if the ranks are not those that were asked for. So a run on a single node, or of
    singletons, is never silent."""
    layout = plan.layout
    expected = dict(zip(layout.nodes, layout.ranks))
    if roster.counts != expected:
        remedy = "mpirun used other hosts or slots: look for settings in the image (openmpi-mca-params.conf)"
        if any(word.lstrip("-").startswith(("host", "machinefile")) for word in plan.spec.start.mpi_args):
            remedy = "leave the hosts out of --mpi-args, and name them with their ranks by mnrun's --hosts"
        problem = f"ranks started on {nodeset.counts(roster.counts)}, but {nodeset.counts(expected)} was asked for"
        raise NodeError(problem, remedy)
    if roster.alone:
        remedy = "the image's MPI and the starter do not match: try --mode inside-out, or another --mpi"
        if roster.starter:  # mnrun started the ranks
            remedy = "the program uses an MPI whose mpirun is not in the image: try --mode outside-in"
        raise RuntimeFailed(f"{len(roster.alone)} of {layout.ntasks} ranks ran as rank 0 of 1", remedy)
    sizes = {size for sizes_by_rank in roster.ranks.values() for size in sizes_by_rank.values()}
    if sizes != {str(layout.ntasks)}:
        raise RuntimeFailed(f"ranks counted {', '.join(sorted(sizes))} in all, not {layout.ntasks}")


def check_network(network: str, reports: Reports, nnodes: int) -> None:
    """Raise Impossible if the run did not use `network`, which is --require's. One node needs none."""
    if network == "any" or nnodes == 1:
        return
    if not reports:
        problem = f"--require {network}: neither NCCL nor UCX nor Open MPI has reported a network"
        raise Impossible(problem, "leave it out if the program uses none of them, or sets their debug output itself")
    wrong = [f"{use} on {nodeset.fold(nodes)}" for use, nodes in uses(reports).items() if use.transport != network]
    if wrong:
        raise Impossible(f"--require {network}: {'; '.join(wrong)}", REMEDY[network])

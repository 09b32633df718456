"""Decide how many ranks run on each node. Pure: a request and an allocation in, a Layout or an error out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from mnrun import nodeset
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import JobSpec, Resources, derived, gpu_count
from mnrun.model import Allocation, Layout, Node
from mnrun.planning import starters
from mnrun.schedulers import KNOWN

PER_GPU = "one per GPU"
FEW = 4  # nodes whose different numbers of ranks are listed one by one
MOST = 1_000_000  # ranks, more than any machine has


def lay_out(spec: JobSpec, allocation: Allocation | None) -> Layout:
    """Choose nodes and ranks. Raises UsageError or Impossible if the request contradicts itself or the allocation.

    The number of ranks is the one asked for, else the job's own tasks, else one per granted GPU, else one per node. The
    ranks are spread evenly, and the first nodes take the remainder, as in srun's block distribution.
    """
    want = spec.resources
    if allocation is None:
        return _on_paper(spec)
    if want.no_gpu:
        allocation = allocation._replace(nodes=tuple(node._replace(gpus=0) for node in allocation.nodes))
    most = max(want.ntasks or 0, want.ntasks_per_node or 0)
    if most > MOST:
        raise UsageError(f"{most} ranks are more than mnrun supports")
    named = _as_named(spec, allocation) if spec.hosts.in_job and spec.hosts.named else allocation
    nodes, why_nodes = _choose_nodes(want, named)
    if named is not allocation:
        why_nodes = "as named"
    _refuse_missing_gpus(want, nodes)
    ntasks, caps, why = _choose_ranks(spec, allocation, nodes)
    if ntasks < len(nodes):
        if want.nodes is not None:
            raise _too_few_ranks(ntasks, len(nodes))
        nodes, caps = nodes[:ntasks], caps and caps[:ntasks]
        why_nodes += ", as many as there are ranks"
    slots = tuple(_slots(node, want, allocation) for node in nodes)
    room = caps or ((ntasks,) * len(nodes) if spec.force else slots)
    if not spec.force:
        room = tuple(map(min, room, slots))
    ranks = _spread(ntasks, room)
    if ranks is None:
        raise Impossible(
            f"{ntasks} ranks do not fit into {nodeset.counted(sum(room), 'slot')} ({_describe(nodes, want)})",
            "ask for fewer ranks, more CPUs or more nodes, or oversubscribe with --force",
        )
    gpus, cpus = tuple(node.gpus for node in nodes), tuple(node.slots or node.cpus for node in nodes)
    names, total = tuple(node.name for node in nodes), sum(node.cpus for node in nodes)
    return Layout(names, ranks, why, why_nodes, gpus=gpus, cpus=cpus, overcommit=ntasks > total)


def share_gpus(spec: JobSpec) -> JobSpec:
    """Return the job with --gpus shared out over its nodes before any are held. Raises Impossible if they do not divide
    evenly."""
    want = spec.resources
    if not want.gpus or want.gpus_asked:
        return spec
    nodes = _on_paper(spec).nnodes
    kind, colon, count = want.gpus.rpartition(":")
    each, over = divmod(int(count), nodes)
    if over or not each:
        raise Impossible(
            f"--gpus {want.gpus} cannot be divided evenly among {nodeset.counted(nodes, 'node')}",
            "use --gpus-per-node or --gpus-per-task",
        )
    origins = {name: origin for name, origin in spec.origins.items() if name != "gpus"}
    on = nodeset.counted(nodes, "node")
    origins["gpus_per_node"] = derived(f"--gpus {want.gpus} ({spec.origins['gpus']}) on {on}")
    shared = want._replace(gpus="", gpus_per_node=f"{kind}{colon}{each}")
    return spec._replace(resources=shared, origins=origins)


def _refuse_missing_gpus(want: Resources, nodes: Sequence[Node]) -> None:
    for node in nodes:
        if want.gpus_asked > node.gpus:
            asked, held = nodeset.counted(want.gpus_asked, "GPU"), f"{node.gpus or 'none'} on {node.name}"
            raise Impossible(f"{asked} per node, but the job has {held}", "ask for them with the nodes of the job")


def refuse_uneven_gpus(spec: JobSpec, layout: Layout) -> None:
    """Raise Impossible if the host's mpirun would need different numbers of GPUs on its nodes. It starts all daemons
    but the first in one step, which has as many GPUs on each of its nodes."""
    counts = layout.gpus[1:]
    by_mpirun = spec.start.mode == "outside-in" and spec.start.launcher not in starters.OF_SCHEDULERS
    if by_mpirun and len(set(counts)) > 1 and not spec.resources.gpus_asked:
        counts_text = ", ".join(f"{node}: {gpus}" for node, gpus in zip(layout.nodes, layout.gpus))
        problem = f"the host's mpirun cannot have different numbers of GPUs on its nodes ({counts_text})"
        ways = f"--launcher {starters.BY_SCHEDULER}, --mode inside-out"
        raise Impossible(problem, f"use {ways}, or the same number on each node: --gpus-per-node")


def _too_few_ranks(ntasks: int, nodes: int) -> UsageError:
    size = f"{nodeset.counted(ntasks, 'rank')} cannot run on {nodes} nodes"
    return UsageError(size, f"ask for --nodes {ntasks} or for more ranks")


def _slots(node: Node, want: Resources, allocation: Allocation) -> int:
    """Return how many ranks a node takes: as named, else by its CPUs, but at least the granted number. The job's own
    tasks have as many CPUs as the job asked for. With another number of ranks, each may have fewer."""
    if node.slots is not None:
        return node.slots
    if want.cpus_per_task is not None:
        return node.cpus // want.cpus_per_task
    each = 1 if want.ntasks or want.ntasks_per_node else allocation.cpus_per_task or 1
    return max(node.cpus // each, node.gpus, allocation.ntasks_per_node or 0)


def _on_paper(spec: JobSpec) -> Layout:
    want = spec.resources
    per_node = want.ntasks_per_node or want.gpus_asked
    nodelist_size = len(nodeset.expand(want.nodelist)) if want.nodelist else 0
    needed = min(want.ntasks, -(-want.ntasks // per_node)) if want.ntasks and per_node else 1
    nodes = want.nodes or max(nodelist_size, needed)
    ntasks = want.ntasks or nodes * (per_node or 1)
    if max(ntasks, nodes) > MOST:
        raise UsageError(f"{max(ntasks, nodes)} ranks or nodes are more than mnrun supports", f"at most {MOST}")
    if ntasks < nodes:
        raise _too_few_ranks(ntasks, nodes)
    ranks = _spread(ntasks, (want.ntasks_per_node or ntasks,) * nodes)
    if ranks is None:
        size = f"{ntasks} ranks do not fit on {nodeset.counted(nodes, 'node')}"
        raise UsageError(f"{size} with --ntasks-per-node {want.ntasks_per_node}")
    why = "--nodes" if want.nodes else f"--nodelist {want.nodelist}" if nodes == nodelist_size else "built-in"
    shaped = want.nodes or nodelist_size or per_node or want.gpus
    return Layout((), ranks, _why_asked(spec) or "one per node", why, open=ntasks > 1 and not shaped)


def _as_named(spec: JobSpec, allocation: Allocation) -> Allocation:
    """Return the nodes of the job that --hosts or --hostfile names inside it, with their ranks. Raises Impossible."""
    option = "--hostfile" if spec.hosts.hostfile else "--hosts"
    by_name = {node.name: node for node in allocation.nodes}
    by_name = {**{name.partition(".")[0]: node for name, node in by_name.items()}, **by_name}
    nodes = []
    for host in spec.hosts.named:
        node = by_name.get(host.name) or by_name.get(host.name.partition(".")[0])
        if node is None:
            its = nodeset.fold(node.name for node in allocation.nodes)
            title = KNOWN[allocation.scheduler].TITLE
            raise Impossible(
                f"{option} names {host.name}, and {title} job {allocation.called or allocation.job} has {its}",
                "name nodes of the job, or leave the job first",
            )
        most = node.cpus // (spec.resources.cpus_per_task or 1)
        if (host.slots or 0) > most and not spec.force:
            problem = f"{option} puts {nodeset.counted(host.slots, 'rank')} on {node.name}"
            raise Impossible(f"{problem}, where the job has room for {most}", "oversubscribe with --force")
        nodes.append(node._replace(slots=host.slots))
    return allocation._replace(nodes=tuple(nodes))


def _choose_nodes(want: Resources, allocation: Allocation) -> tuple[tuple[Node, ...], str]:
    by_name = {node.name: node for node in allocation.nodes}
    chosen, why = allocation.nodes, {"local": "this machine", "hosts": "as named"}.get(allocation.scheduler, "")
    if not why:
        why = f"all of {KNOWN[allocation.scheduler].TITLE} job {allocation.called or allocation.job}"
    out = set(nodeset.expand(want.exclude)) if want.exclude else set()
    if want.nodelist:
        names = nodeset.expand(want.nodelist)
        strange = [name for name in names if name not in by_name]
        if strange:
            raise Impossible(
                f"--nodelist names {nodeset.fold(strange)}, which this job does not have",
                f"its nodes are {nodeset.fold(by_name)}",
            )
        others = (node for node in allocation.nodes if node.name not in {*names, *out})
        more = islice(others, max((want.nodes or 0) - len(names), 0))  # as Slurm adds to a short list (srun(1), -w)
        chosen, why = (*(by_name[name] for name in names), *more), "--nodelist"
    if out:
        chosen, why = tuple(node for node in chosen if node.name not in out), f"{why}, less --exclude"
    if not chosen:
        raise Impossible("--exclude leaves no node", f"the job has {nodeset.fold(by_name)}")
    if want.nodes is not None:
        if want.nodes > len(chosen) and allocation.scheduler == "local":
            raise Impossible(
                f"--nodes {want.nodes}, but without a scheduler this machine is the only node",
                f"go to a login node, or name machines with --hosts; for {want.nodes} ranks here write -n {want.nodes}",
            )
        if want.nodes > len(chosen):
            problem = f"--nodes {want.nodes}, but there are {len(chosen)} ({nodeset.fold(n.name for n in chosen)})"
            each = f"for {want.nodes} ranks on each node --ntasks-per-node {want.nodes}"
            raise Impossible(problem, f"write --nodes {len(chosen)}, or {each}")
        if want.nodes < len(chosen):
            why = f"--nodes {want.nodes}: the first of {len(chosen)}"
        chosen = chosen[: want.nodes]
    return chosen, why


def _choose_ranks(
    spec: JobSpec, allocation: Allocation, nodes: Sequence[Node]
) -> tuple[int, tuple[int, ...] | None, str]:
    """Return (ranks in all, the most on each node or None, the reason)."""
    want = spec.resources
    per_node = want.ntasks_per_node
    if spec.start.launcher == "ray":
        return len(nodes), (1,) * len(nodes), "one of Ray on each node"
    if want.ntasks is not None:
        return want.ntasks, ((per_node,) * len(nodes) if per_node else None), _why_asked(spec)
    if per_node is not None:
        return per_node * len(nodes), (per_node,) * len(nodes), _why_asked(spec)
    slots = tuple(node.slots for node in nodes if node.slots is not None)
    if slots:
        return sum(slots), slots, "as given for each host"
    per_node = allocation.ntasks_per_node
    caps = (per_node,) * len(nodes) if per_node else None
    job = f"job {allocation.called or allocation.job}"
    if allocation.ntasks is not None and len(nodes) == len(allocation.nodes):
        return allocation.ntasks, caps, f"{job} asked for {nodeset.counted(allocation.ntasks, 'task')}"
    if per_node is not None:
        return per_node * len(nodes), caps, f"{job} asked for {per_node} on each node"
    gpus_each = want.gpus_asked
    gpus = tuple(gpus_each or node.gpus for node in nodes)
    if all(gpus):
        return sum(gpus), gpus, f"{PER_GPU} ({', '.join(str(n) for n in sorted(set(gpus)))} on each node)"
    return len(nodes), (1,) * len(nodes), "one per node"


def _why_asked(spec: JobSpec) -> str:
    if spec.resources.ntasks is not None:
        return f"--ntasks ({spec.origins.get('ntasks', 'asked')})"
    if spec.resources.ntasks_per_node is not None:
        return f"--ntasks-per-node ({spec.origins.get('ntasks_per_node', 'asked')})"
    return f"{PER_GPU} asked for" if spec.resources.gpus_asked else ""


def size(laid: Layout) -> str:
    """Return the nodes with their ranks, for a person: `2 nodes x 4 ranks`, `2 nodes x 3 + 1 ranks`."""
    if laid.open:
        return f"{nodeset.counted(laid.ntasks, 'rank')} on as many nodes as they need"
    counts = sorted(set(laid.ranks))
    few = len(counts) > 1 and laid.nnodes <= FEW
    ranks = " + ".join(map(str, laid.ranks)) if few else "-".join(map(str, counts))
    return f"{nodeset.counted(laid.nnodes, 'node')} x {nodeset.counted(ranks, 'rank')}"


def gpus(want: Resources, laid: Layout) -> int:
    if want.gpus_per_task:
        return gpu_count(want.gpus_per_task) * laid.ntasks
    return want.gpus_asked * laid.nnodes


def _spread(ntasks: int, room: Sequence[int]) -> tuple[int, ...] | None:
    """Return `ntasks` ranks dealt out to the nodes one by one, each up to its `room`, or None if they do not fit."""
    if ntasks > sum(room) or min(room) < 1:
        return None
    ranks = [0] * len(room)
    while ntasks:
        takers = [i for i, most in enumerate(room) if ranks[i] < most][:ntasks]
        rounds = min(ntasks // len(takers), *(room[i] - ranks[i] for i in takers))
        for i in takers:
            ranks[i] += rounds
        ntasks -= rounds * len(takers)
    return tuple(ranks)


def _describe(nodes: Sequence[Node], want: Resources) -> str:
    cpus = sorted({node.cpus for node in nodes})
    text = f"{nodeset.counted(len(nodes), 'node')} x {nodeset.counted('-'.join(map(str, cpus)), 'CPU')}"
    return text + (f", {nodeset.counted(want.cpus_per_task, 'CPU')} a rank" if want.cpus_per_task else "")

"""Decide how many ranks run on each node. Pure: a request and an allocation in, a Layout or an error out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from mnrun import nodeset
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import JobSpec, Resources, derived, gpu_count
from mnrun.model import Allocation, Layout, Node

FEW = 4  # nodes whose different numbers of ranks are listed one by one
MOST = 1_000_000  # ranks, more than any machine has


def lay_out(spec: JobSpec, allocation: Allocation | None) -> Layout:
    """Choose nodes and ranks.

    The number of ranks is the one asked for, else the job's own tasks, else one per granted GPU, else one per node. The
    ranks are spread evenly, and the first nodes take the remainder, as in srun's block distribution.

    Raises UsageError or Impossible if the request contradicts itself or the allocation.
    """
    want = spec.resources
    if allocation is None:
        return _on_paper(spec)
    if want.no_gpu:
        allocation = replace(allocation, nodes=tuple(replace(node, gpus=0) for node in allocation.nodes))
    most = max(want.ntasks or 0, want.ntasks_per_node or 0)
    if most > MOST:
        raise UsageError(f"{most} ranks are more than mnrun supports")
    nodes, why_nodes = _choose_nodes(want, allocation)
    _refuse_missing_gpus(want, nodes)
    _refuse_uneven_gpus(spec, nodes)
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
    return Layout(tuple(node.name for node in nodes), ranks, why, why_nodes)


def share_gpus(spec: JobSpec) -> JobSpec:
    """Return the job with --gpus shared out over its nodes, before any are held: its steps need a number per node.

    Raises Impossible if the GPUs cannot be shared out evenly.
    """
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
    origins["gpus_per_node"] = derived(
        f"--gpus {want.gpus} ({spec.origins['gpus']}) on {nodeset.counted(nodes, 'node')}"
    )
    shared = replace(want, gpus="", gpus_per_node=f"{kind}{colon}{each}")
    return replace(spec, resources=shared, origins=origins)


def _refuse_missing_gpus(want: Resources, nodes: Sequence[Node]) -> None:
    for node in nodes:
        if want.gpus_asked > node.gpus:
            grant = f"the job has {node.gpus or 'none'} on {node.name}"
            raise Impossible(
                f"{nodeset.counted(want.gpus_asked, 'GPU')} per node, but {grant}", "ask for them in salloc or sbatch"
            )


def _refuse_uneven_gpus(spec: JobSpec, nodes: Sequence[Node]) -> None:
    """Raise Impossible if the host's mpirun would need different numbers of GPUs on its nodes.

    It starts its daemons in one step on all nodes but the first, and a step has as many GPUs on each of its nodes.
    """
    counts = [node.gpus for node in nodes[1:]]
    by_mpirun = spec.start.mode == "outside-in" and spec.start.launcher != "srun"
    if by_mpirun and len(set(counts)) > 1 and not spec.resources.gpus_asked:
        counts_text = ", ".join(f"{node.name}: {node.gpus}" for node in nodes)
        raise Impossible(
            f"the host's mpirun cannot have different numbers of GPUs on its nodes ({counts_text})",
            "use --launcher srun, --mode inside-out, or the same number on each node: --gpus-per-node",
        )


def _too_few_ranks(ntasks: int, nodes: int) -> UsageError:
    size = f"{nodeset.counted(ntasks, 'rank')} cannot run on {nodes} nodes"
    return UsageError(size, f"ask for --nodes {ntasks} or for more ranks")


def _slots(node: Node, want: Resources, allocation: Allocation) -> int:
    """Return how many ranks a node takes: as named, else by its CPUs, but at least the granted number.

    The job's own tasks have as many CPUs as the job asked for. If the user names another number of ranks, each may have
    fewer.
    """
    if node.slots is not None:
        return node.slots
    if want.cpus_per_task is not None:
        return node.cpus // want.cpus_per_task
    each = 1 if want.ntasks or want.ntasks_per_node else allocation.cpus_per_task or 1
    return max(node.cpus // each, node.gpus, allocation.ntasks_per_node or 0)


def _on_paper(spec: JobSpec) -> Layout:
    """Return the layout before nodes are held."""
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


def _choose_nodes(want: Resources, allocation: Allocation) -> tuple[tuple[Node, ...], str]:
    by_name = {node.name: node for node in allocation.nodes}
    chosen, why = allocation.nodes, f"all of {allocation.scheduler} job {allocation.called or allocation.job}"
    if allocation.scheduler in ("local", "hosts"):
        why = "this machine" if allocation.scheduler == "local" else "as named"
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
            hint = f"write --nodes {len(chosen)}, or for {want.nodes} ranks on each node --ntasks-per-node {want.nodes}"
            raise Impossible(
                f"--nodes {want.nodes}, but there are {len(chosen)} ({nodeset.fold(n.name for n in chosen)})",
                hint,
            )
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
        return sum(gpus), gpus, f"one per GPU ({', '.join(str(n) for n in sorted(set(gpus)))} on each node)"
    return len(nodes), (1,) * len(nodes), "one per node"


def _why_asked(spec: JobSpec) -> str:
    if spec.resources.ntasks is not None:
        return f"--ntasks ({spec.origins.get('ntasks', 'asked')})"
    if spec.resources.ntasks_per_node is not None:
        return f"--ntasks-per-node ({spec.origins.get('ntasks_per_node', 'asked')})"
    return "one per GPU asked for" if spec.resources.gpus_asked else ""


def size(laid: Layout) -> str:
    """Return the nodes with their ranks, for a person: `2 nodes x 4 ranks`, `2 nodes x 3 + 1 ranks`."""
    if laid.open:
        return f"{nodeset.counted(laid.ntasks, 'rank')} on as many nodes as they need"
    counts = sorted(set(laid.ranks))
    few = len(counts) > 1 and laid.nnodes <= FEW
    ranks = " + ".join(map(str, laid.ranks)) if few else "-".join(map(str, counts))
    return f"{nodeset.counted(laid.nnodes, 'node')} x {nodeset.counted(ranks, 'rank')}"


def gpus(want: Resources, laid: Layout) -> int:
    """Return the GPUs that a job asks for in all, or 0 if it asks for none."""
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

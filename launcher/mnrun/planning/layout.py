"""Decide how many ranks run on each node. Pure: a request and an allocation in, a Layout or an error out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mnrun import nodeset
from mnrun.errors import Impossible, UsageError
from mnrun.model import Allocation, JobSpec, Layout, Node

MOST = 1_000_000  # ranks, more than any machine has


def lay_out(spec: JobSpec, allocation: Allocation | None) -> Layout:
    """Choose nodes and ranks.

    The number of ranks is the one asked for, else the job's own tasks, else one per granted GPU, else one per node. The
    ranks are spread evenly, and the first nodes take the remainder, as in srun's block distribution.

    Raises UsageError or Impossible if the request contradicts itself or the allocation.
    """
    if allocation is None:
        return _on_paper(spec)
    if spec.no_gpu:
        allocation = replace(allocation, nodes=tuple(replace(node, gpus=0) for node in allocation.nodes))
    if max(spec.ntasks or 0, spec.ntasks_per_node or 0) > MOST:
        raise UsageError(f"{max(spec.ntasks or 0, spec.ntasks_per_node or 0)} ranks are more than mnrun supports")
    nodes, why_nodes = _choose_nodes(spec, allocation)
    _refuse_missing_gpus(spec, nodes)
    _refuse_uneven_gpus(spec, nodes)
    ntasks, caps, why = _choose_ranks(spec, allocation, nodes)
    if ntasks < len(nodes):
        if spec.nodes is not None:
            raise _too_few_ranks(ntasks, len(nodes))
        nodes, caps = nodes[:ntasks], caps and caps[:ntasks]
        why_nodes += ", as many as there are ranks"
    slots = tuple(_slots(node, spec, allocation) for node in nodes)
    room = caps or ((ntasks,) * len(nodes) if spec.force else slots)
    if not spec.force:
        room = tuple(map(min, room, slots))
    ranks = _spread(ntasks, room)
    if ranks is None:
        raise Impossible(
            f"{ntasks} ranks do not fit into {sum(room)} slots ({_describe(nodes, spec)})",
            "ask for fewer ranks, more CPUs or more nodes, or oversubscribe with --force",
        )
    return Layout(tuple(node.name for node in nodes), ranks, why, why_nodes)


def share_gpus(spec: JobSpec) -> JobSpec:
    """Return the job with --gpus shared out over its nodes, before any are held: its steps need a number per node.

    Raises Impossible if the GPUs cannot be shared out evenly.
    """
    if not spec.gpus or spec.gpus_per_node or spec.gres:
        return spec
    nodes = _on_paper(spec).nnodes
    kind, colon, count = spec.gpus.rpartition(":")
    each, over = divmod(int(count), nodes)
    if over or not each:
        raise Impossible(
            f"--gpus {spec.gpus} cannot be divided evenly among {nodes} nodes",
            "use --gpus-per-node or --gpus-per-task",
        )
    origins = {name: origin for name, origin in spec.origins.items() if name != "gpus"}
    origins["gpus_per_node"] = f"--gpus {spec.gpus} ({spec.origins['gpus']}) on {nodes} nodes"
    return replace(spec, gpus="", gpus_per_node=f"{kind}{colon}{each}", origins=origins)


def _refuse_missing_gpus(spec: JobSpec, nodes: Sequence[Node]) -> None:
    for node in nodes:
        if _gpus_asked(spec) > node.gpus:
            held = f"the job has {node.gpus or 'none'} on {node.name}"
            raise Impossible(f"{_gpus_asked(spec)} GPUs per node, but {held}", "ask for them in salloc or sbatch")


def _refuse_uneven_gpus(spec: JobSpec, nodes: Sequence[Node]) -> None:
    """Raise Impossible if the host's mpirun would need different numbers of GPUs on its nodes.

    It starts its daemons in one step on all nodes but the first, and a step has as many GPUs on each of its nodes.
    """
    counts = [node.gpus for node in nodes[1:]]
    if spec.mode == "outside-in" and spec.launcher != "srun" and len(set(counts)) > 1 and not _gpus_asked(spec):
        held = ", ".join(f"{node.name}: {node.gpus}" for node in nodes)
        raise Impossible(
            f"the host's mpirun cannot have different numbers of GPUs on its nodes ({held})",
            "use --launcher srun, --mode inside-out, or the same number on each node: --gpus-per-node",
        )


def _too_few_ranks(ntasks: int, nodes: int) -> UsageError:
    return UsageError(f"{ntasks} ranks cannot run on {nodes} nodes", f"ask for --nodes {ntasks} or for more ranks")


def _slots(node: Node, spec: JobSpec, allocation: Allocation) -> int:
    """Return how many ranks a node takes: as named, else by its CPUs, but at least the granted number."""
    if node.slots is not None:
        return node.slots
    granted = max(node.gpus, allocation.ntasks_per_node or 0) if spec.cpus_per_task is None else 0
    return max(node.cpus // (spec.cpus_per_task or 1), granted)


def _on_paper(spec: JobSpec) -> Layout:
    """Return the layout before nodes are held."""
    per_node = spec.ntasks_per_node or _gpus_asked(spec)
    named = len(nodeset.expand(spec.nodelist)) if spec.nodelist else 0
    needed = min(spec.ntasks, -(-spec.ntasks // per_node)) if spec.ntasks and per_node else 1
    nodes = spec.nodes or max(named, needed)
    ntasks = spec.ntasks or nodes * (per_node or 1)
    if max(ntasks, nodes) > MOST:
        raise UsageError(f"{max(ntasks, nodes)} ranks or nodes are more than mnrun supports", f"at most {MOST}")
    if ntasks < nodes:
        raise _too_few_ranks(ntasks, nodes)
    ranks = _spread(ntasks, (spec.ntasks_per_node or ntasks,) * nodes)
    if ranks is None:
        raise UsageError(f"{ntasks} ranks do not fit on {nodes} nodes with --ntasks-per-node {spec.ntasks_per_node}")
    why = "--nodes" if spec.nodes else f"--nodelist {spec.nodelist}" if nodes == named else "built-in"
    return Layout((), ranks, _why_asked(spec) or "one per node", why)


def _choose_nodes(spec: JobSpec, allocation: Allocation) -> tuple[tuple[Node, ...], str]:
    held = {node.name: node for node in allocation.nodes}
    chosen, why = allocation.nodes, f"all of {allocation.scheduler} job {allocation.job}"
    if allocation.scheduler in ("local", "hosts"):
        why = "this machine" if allocation.scheduler == "local" else "as named"
    if spec.nodelist:
        names = nodeset.expand(spec.nodelist)
        strange = [name for name in names if name not in held]
        if strange:
            raise Impossible(
                f"--nodelist names {nodeset.fold(strange)}, which this job does not have",
                f"its nodes are {nodeset.fold(held)}",
            )
        chosen, why = tuple(held[name] for name in names), "--nodelist"
    if spec.exclude:
        out = set(nodeset.expand(spec.exclude))
        chosen, why = tuple(node for node in chosen if node.name not in out), f"{why}, less --exclude"
    if spec.nodes is not None:
        if spec.nodes > len(chosen):
            hint = f"for {spec.nodes} ranks on each node write --ntasks-per-node {spec.nodes}"
            raise Impossible(
                f"--nodes {spec.nodes}, but there are {len(chosen)} ({nodeset.fold(n.name for n in chosen)})", hint
            )
        if spec.nodes < len(chosen):
            why = f"--nodes {spec.nodes}: the first of {len(chosen)}"
        chosen = chosen[: spec.nodes]
    if not chosen:
        raise Impossible("--exclude leaves no node", f"the job has {nodeset.fold(held)}")
    return chosen, why


def _choose_ranks(
    spec: JobSpec, allocation: Allocation, nodes: Sequence[Node]
) -> tuple[int, tuple[int, ...] | None, str]:
    """Return (ranks in all, the most on each node or None, the reason)."""
    per_node = spec.ntasks_per_node
    if spec.ntasks is not None:
        return spec.ntasks, ((per_node,) * len(nodes) if per_node else None), _why_asked(spec)
    if per_node is not None:
        return per_node * len(nodes), (per_node,) * len(nodes), _why_asked(spec)
    slots = tuple(node.slots for node in nodes if node.slots is not None)
    if slots:
        return sum(slots), slots, "as given for each host"
    if allocation.ntasks_per_node is not None:
        per_node = allocation.ntasks_per_node
        return (
            per_node * len(nodes),
            (per_node,) * len(nodes),
            f"job {allocation.job} asked for {per_node} on each node",
        )
    if allocation.ntasks is not None and len(nodes) == len(allocation.nodes):
        return allocation.ntasks, None, f"job {allocation.job} asked for {allocation.ntasks} tasks"
    asked = _gpus_asked(spec)
    gpus = tuple(asked or node.gpus for node in nodes)
    if all(gpus):
        return sum(gpus), gpus, f"one per GPU ({', '.join(str(n) for n in sorted(set(gpus)))} on each node)"
    return len(nodes), (1,) * len(nodes), "one per node"


def _why_asked(spec: JobSpec) -> str:
    if spec.ntasks is not None:
        return f"--ntasks ({spec.origins.get('ntasks', 'asked')})"
    if spec.ntasks_per_node is not None:
        return f"--ntasks-per-node ({spec.origins.get('ntasks_per_node', 'asked')})"
    return "one per GPU asked for" if _gpus_asked(spec) else ""


def _gpus_asked(spec: JobSpec) -> int:
    """Return the GPUs per node in --gpus-per-node or --gres, 0 if none: `4`, `a100:4`, `gpu:a100:2,tmp:1`."""
    if spec.gpus_per_node:
        return int(spec.gpus_per_node.rpartition(":")[2])
    for item in filter(None, spec.gres.split(",")):
        name, _, rest = item.partition(":")
        if name in ("gpu", "gres/gpu"):
            count = rest.rpartition(":")[2]
            return int(count) if count.isdigit() else 1
    return 0


def gpus(spec: JobSpec, laid: Layout) -> int:
    """Return the GPUs that a job asks for in all, or 0 if it asks for none."""
    if spec.gpus_per_task:
        return int(spec.gpus_per_task.rpartition(":")[2]) * laid.ntasks
    return _gpus_asked(spec) * laid.nnodes


def _spread(ntasks: int, room: Sequence[int]) -> tuple[int, ...] | None:
    """Return `ntasks` ranks dealt out to the nodes one by one, each up to its `room`, or None if they do not fit."""
    if ntasks > sum(room) or min(room) < 1:
        return None
    ranks = [0] * len(room)
    while ntasks:
        for i in (i for i in range(len(room)) if ranks[i] < room[i]):
            if ntasks:
                ranks[i] += 1
                ntasks -= 1
    return tuple(ranks)


def _describe(nodes: Sequence[Node], spec: JobSpec) -> str:
    cpus = sorted({node.cpus for node in nodes})
    text = f"{nodeset.counted(len(nodes), 'node')} x {nodeset.counted('-'.join(map(str, cpus)), 'CPU')}"
    return text + (f", {spec.cpus_per_task} CPUs a rank" if spec.cpus_per_task else "")

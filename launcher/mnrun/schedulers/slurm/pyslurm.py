"""What pyslurm's objects mean: the same jobs and nodes as in answers.py. Asks nobody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mnrun import nodeset
from mnrun.schedulers.slurm.answers import Job, Place, span, word


def jobs(loaded: Iterable[Any], uid: int) -> list[Job]:
    """The user's jobs among the objects that pyslurm.Jobs.load() gives (its 23 and 24 lines).

    Two of its ways, seen with 24.11: a task 0 has no array_task_id, and GPUs are told only where they are asked for
    by node, so that --gpus and --gpus-per-task count as none.
    """
    found = []
    for job in loaded:
        if job.user_id != uid:
            continue
        identity = str(job.id)
        if job.array_id:
            waiting = getattr(job, "array_tasks_waiting", None)
            identity = f"{job.array_id}_[{waiting}]" if waiting else f"{job.array_id}_{job.array_task_id or 0}"
        found.append(
            Job(
                id=identity,
                name=job.name or "",
                state=str(job.state).split()[0].rstrip("+"),
                reason=word(job.state_reason),
                partition=job.partition or "",
                nodes=job.num_nodes or 0,
                nodelist=job.allocated_nodes or "",
                gpus=_gpus_of(job.gres_per_node) * max(job.num_nodes or 0, 1),
                restarts=job.requeue_count or 0,
                submitted=job.submit_time or 0,
                start=job.start_time or 0,
                end=job.end_time or 0,
                code=job.exit_code or 0,
                signal=job.exit_code_signal or 0,
                depends=_dependencies(job.dependencies),
            )
        )
    return found


def _dependencies(said: Mapping[str, Any] | str | None) -> str:
    """{"afterok": ["8(unfulfilled)"], "satisfy": "all", …} -> `afterok:8(unfulfilled)`, as squeue writes it."""
    if not isinstance(said, Mapping):
        return word(said)
    kinds = [f"{kind}:{job}" for kind, jobs in said.items() if isinstance(jobs, list) for job in jobs]
    alone = ["singleton"] if said.get("singleton") else []
    return ("?" if said.get("satisfy") == "any" else ",").join(kinds + alone)


def _gpus_of(gres: Mapping[str, Any] | None) -> int:
    return sum(int(count) for name, count in (gres or {}).items() if re.match(r"(gres[:/])?gpu(:|$)", name))


def places(partitions: Iterable[Any], nodes: Iterable[Any]) -> list[Place]:
    """The same as sinfo_columns, of what pyslurm.Partitions.load() and pyslurm.Nodes.load() give.

    Raises LookupError where nodes work, and have GPUs, of which pyslurm cannot say how many are taken: it knows
    only where the accounting counts them (AccountingStorageTRES=gres/gpu; seen with 24.11).
    """
    by_name = {node.name: node for node in nodes}
    found = []
    for partition in partitions:
        for name in nodeset.expand(partition.nodes) if partition.nodes else ():
            node = by_name[name]
            state, mark = _node_state(str(node.state))
            used = node.allocated_gres if hasattr(node, "allocated_gres") else node.alloc_gres  # since 23.11; before
            if _gpus_of(node.configured_gres) and not used and state in ("mixed", "allocated"):
                raise LookupError(f"the GPUs of {name} that are taken")
            found.append(
                Place(
                    partition=partition.name,
                    default=bool(partition.is_default),
                    node=name,
                    state=state,
                    mark=mark,
                    gpus=_gpus_of(node.configured_gres),
                    gpus_used=_gpus_of(used),
                    cpus=node.total_cpus or 0,
                    cpus_idle=node.idle_cpus or 0,
                    up=partition.state == "UP",
                    limit=_limit(partition.max_time),
                    reason=node.reason or "",
                )
            )
    return found


def _limit(minutes: int | str | None) -> str:
    """The time that a job may take, as sinfo writes it: 1-02:30:00, 30:00, infinite."""
    return span(60 * minutes) if isinstance(minutes, int) else "infinite"


def _node_state(text: str) -> tuple[str, str]:
    """`IDLE+DRAIN` -> sinfo's word and mark."""
    base, *flags = text.lower().split("+")
    mark = "*" if base.endswith("*") or "not_responding" in flags else "$" if "maintenance" in flags else ""
    if "drain" in flags:
        return "drained", mark
    return ("planned" if "planned" in flags else "reserved" if "reserved" in flags else base.rstrip("*")), mark

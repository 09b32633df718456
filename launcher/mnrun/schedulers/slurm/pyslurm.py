"""Turn pyslurm's objects into the jobs and nodes of answers.py. Asks nobody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mnrun import nodeset
from mnrun.schedulers.queue import Job, PartitionNode
from mnrun.schedulers.slurm.answers import gpu_types, unopened, word
from mnrun.schedulers.slurm.states import job_state, node_state
from mnrun.schedulers.vocabulary import span


def jobs(loaded: Iterable[Any], uid: int) -> list[Job]:
    """Return the user's jobs among the objects of pyslurm.Jobs.load() (pyslurm 23 and 24).

    pyslurm has two quirks, seen with 24.11. Task 0 has no array_task_id. It tells of GPUs only if the job asks for them
    by node, so that --gpus and --gpus-per-task count as none.
    """
    user_jobs = []
    for job in loaded:
        if job.user_id != uid:
            continue
        identity = str(job.id)
        if job.array_id:
            waiting = getattr(job, "array_tasks_waiting", None)
            identity = f"{job.array_id}_[{waiting}]" if waiting else f"{job.array_id}_{job.array_task_id or 0}"
        state = job_state(str(job.state).split()[0].rstrip("+"))
        user_jobs.append(
            Job(
                id=identity,
                name=job.name or "",
                state=state,
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
                why=unopened(state, job.exit_code_signal or 0, job.allocated_nodes or ""),
                depends=_dependencies(job.dependencies),
            )
        )
    return user_jobs


def _dependencies(value: Mapping[str, Any] | str | None) -> str:
    """Turn {"afterok": ["8(unfulfilled)"], "satisfy": "all", …} into `afterok:8(unfulfilled)`, as squeue writes it."""
    if not isinstance(value, Mapping):
        return word(value)
    kinds = [f"{kind}:{job}" for kind, jobs in value.items() if isinstance(jobs, list) for job in jobs]
    alone = ["singleton"] if value.get("singleton") else []
    return ("?" if value.get("satisfy") == "any" else ",").join(kinds + alone)


def _gpus_of(gres: Mapping[str, Any] | None) -> int:
    return sum(int(count) for name, count in (gres or {}).items() if re.match(r"(gres[:/])?gpu(:|$)", name))


def nodes(partitions: Iterable[Any], machines: Iterable[Any]) -> list[PartitionNode]:
    """Return the same as sinfo_columns, from the objects of pyslurm.Partitions.load() and pyslurm.Nodes.load().

    Raises LookupError if busy nodes have GPUs, and pyslurm cannot say how many of them are taken. pyslurm knows that
    only where the accounting counts GPUs (AccountingStorageTRES=gres/gpu, seen with 24.11).
    """
    by_name = {node.name: node for node in machines}
    entries = []
    for partition in partitions:
        for name in nodeset.expand(partition.nodes) if partition.nodes else ():
            node, minutes = by_name[name], partition.max_time
            code, mark = _code(str(node.state))
            state, why = node_state(code, mark, node.reason or "")
            # allocated_gres is there since pyslurm 23.11, alloc_gres before.
            used = node.allocated_gres if hasattr(node, "allocated_gres") else node.alloc_gres
            if _gpus_of(node.configured_gres) and not used and code in ("mixed", "allocated"):
                raise LookupError(f"the GPUs of {name} that are taken")
            entries.append(
                PartitionNode(
                    partition=partition.name,
                    default=bool(partition.is_default),
                    node=name,
                    state=state,
                    gpus=_gpus_of(node.configured_gres),
                    gpus_used=_gpus_of(used),
                    cpus=node.total_cpus or 0,
                    cpus_idle=node.idle_cpus or 0,
                    up=partition.state == "UP",
                    limit=span(60 * minutes) if isinstance(minutes, int) else "infinite",  # as sinfo writes it
                    why=why,
                    memory=getattr(node, "real_memory", None) or 0,
                    gpu_types=gpu_types(",".join(node.configured_gres or {})),
                    features=",".join(getattr(node, "available_features", None) or ()),
                )
            )
    return entries


def _code(text: str) -> tuple[str, str]:
    """Turn `IDLE+DRAIN` into sinfo's word and mark."""
    base, *flags = text.lower().split("+")
    mark = "*" if base.endswith("*") or "not_responding" in flags else "$" if "maintenance" in flags else ""
    if "drain" in flags:
        return "drained", mark
    return ("planned" if "planned" in flags else "reserved" if "reserved" in flags else base.rstrip("*")), mark

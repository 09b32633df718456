"""Say what the cluster has, where Slurm refuses a request. Runs no command."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from mnrun.errors import SchedulerError
from mnrun.jobspec import JobSpec
from mnrun.near import nearest
from mnrun.nodeset import counted
from mnrun.schedulers.queue import PartitionNode, gpus_of, size

# Words of a refusal, and the option that asks for a name which is not there, or which this user may not use.
_NAMES = (
    ("invalid account", "account"),
    ("invalid qos", "qos"),
    ("reservation is invalid", "reservation"),
    ("invalid feature", "constraint"),
    ("invalid partition", "partition"),
)
_UNITS = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}  # in MB, which is --mem's own (sbatch(1))
Names = Callable[[str], Sequence[str]]


def refused(message: str) -> str:
    """Return the option whose name Slurm refuses, or "" if its refusal is about something else."""
    return next((option for words, option in _NAMES if words in message.lower()), "")


def named(name: str, spec: JobSpec, nodes: Sequence[PartitionNode], names: Names) -> str:
    """Return the names that there are for the option `name`, if the request has it, and else "".

    `nodes` are all nodes for a partition, and those of the job's partitions for a feature. `names` asks Slurm for the
    accounts and QOS of this user, and for reservations.
    """
    given = spec.batch.text(name) if name else ""
    if not given:
        return ""
    if name in ("partition", "constraint"):
        words = {node.partition if name == "partition" else node.features for node in nodes}
        there = sorted(set(",".join(words).split(",")) - {""})
    else:
        there = []
        with suppress(SchedulerError):
            there = sorted(names(name))
    if not there:
        return ""
    near = next(filter(None, (nearest(word, there) for word in re.split(r"[,&|\[\]()*]", given) if word)), "")
    meant = f"; did you mean {near}?" if near else ""
    return f"--{name} ({spec.origins[name]}) asks for {given}, and there {_are(there)}{meant}"


def _are(there: Sequence[str]) -> str:
    """Return `is a`, or `are a, b and c`."""
    return f"are {', '.join(there[:-1])} and {there[-1]}" if there[1:] else f"is {there[0]}"


def amounts(spec: JobSpec, its: Sequence[PartitionNode]) -> str:
    """Return what the largest nodes of the job's partitions have, and the options that ask for more, or ""."""
    want = spec.resources
    cpus, memory = max((p.cpus for p in its), default=0), max((p.memory for p in its), default=0)
    gpus = max((p.gpus for p in its), default=0)
    ranks = {"ntasks_per_node": want.ntasks_per_node or 1, "cpus_per_task": want.cpus_per_task or 1}
    wide = ranks["ntasks_per_node"] * ranks["cpus_per_task"] > cpus
    gpu_options = [name for name in ("gpus_per_node", "gres") if want.gpus_asked and spec.value(name)]
    kinds = set(filter(None, ",".join(p.gpu_types for p in its).split(",")))
    asked = [
        *(name for name, number in ranks.items() if wide and number > 1),
        *(["mem"] if memory and _megabytes(spec.batch.text("mem")) > memory else []),
        *(name for name in gpu_options[:1] if want.gpus_asked > gpus or _types(str(spec.value(name))) - kinds),
    ]
    if not its or not cpus or not asked:
        return ""
    held = [f"{size(memory)} of memory"] if memory else []
    there = [counted(cpus, "CPU"), *held, gpus_of(gpus, sorted(kinds))]
    partitions = sorted({p.partition for p in its})
    where = f"partition{'s' * (len(partitions) > 1)} {' and '.join(partitions)}"
    options = [f"--{name.replace('_', '-')} ({spec.origins[name]}) asks for {spec.value(name)}" for name in asked]
    most = f"a node of {where} has at most {', '.join(there[:-1])} and {there[-1]}"
    return f"{most}, and {' and '.join(options)}: mnrun nodes"


def _megabytes(text: str) -> float:
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.lower())
    return int(match[1]) * _UNITS[match[2] or "m"] if match else 0


def _types(text: str) -> set[str]:
    """Return the types of GPUs in `a100:2` or `gpu:a100:2,tmp:1`."""
    items = (re.sub("^gpu:", "", item) for item in text.split(",") if re.match(r"gpu:|[^:]+(:\d+)?$", item))
    return {item.partition(":")[0] for item in items if not item.partition(":")[0].isdecimal()} - {"gpu"}

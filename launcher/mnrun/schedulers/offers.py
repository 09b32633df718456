"""Say what the cluster has, where its scheduler refuses a request. Only the queue is asked, and only then."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from mnrun.errors import LaunchError, NoAnswerError, SchedulerError
from mnrun.jobspec import JobSpec
from mnrun.near import nearest
from mnrun.nodeset import counted, expand, fold
from mnrun.schedulers.queue import PartitionNode, Queue, gpus_of, size

# Words of refusals, and the option that asks for a name which is not there, or which this user may not use.
_NAMES = (
    ("invalid account", "account"),
    ("invalid qos", "qos"),
    ("reservation is invalid", "reservation"),
    ("invalid feature", "constraint"),
    ("partition", "partition"),
    ("queue", "partition"),
)
_NOUNS = {"qos": "QOS", "constraint": "feature"}
_UNITS = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}  # in MB, which is --mem's own (sbatch(1))


def explained(error: SchedulerError, spec: JobSpec, queue: Queue, partition: str = "") -> SchedulerError:
    """Return the error for a refused request: what the cluster has, if that is less, else the scheduler's words.
    `partition` is that of a job that names none."""
    with suppress(LaunchError):  # it does not answer, or mnrun does not ask it
        if not isinstance(error, NoAnswerError) and (lack := lacking(error.message, spec, queue, partition)):
            return lack
    return error


def lacking(message: str, spec: JobSpec, queue: Queue, partition: str = "") -> SchedulerError | None:
    """Return the error for what the cluster lacks of a request that was refused with `message`, or None."""
    name = next((option for words, option in _NAMES if words in message.lower()), "")
    if name in ("account", "qos", "reservation"):
        return _named(name, spec, queue.names(name)) if spec.batch.text(name) else None
    nodes = queue.nodes()
    its = of_job(spec, nodes, partition)
    if "node name" in message.lower() and (strange := _strange(spec, nodes)):
        return strange
    if name == "constraint":
        return _named(name, spec, ",".join(node.features for node in its).split(","))
    if name and (unknown := _named(name, spec, [node.partition for node in nodes])):
        return unknown
    return _amounts(spec, its)


def of_job(spec: JobSpec, nodes: Sequence[PartitionNode], partition: str = "") -> list[PartitionNode]:
    """Return the nodes of the job's partitions: by default those of the default one, or all without a default."""
    names = (spec.batch.text("partition") or partition).split(",")
    default = any(node.default for node in nodes)
    return [node for node in nodes if (node.partition in names if names[0] else node.default or not default)]


def too_wide(spec: JobSpec, its: Sequence[PartitionNode]) -> str:
    """Return the sizes of the job's partitions if the job asks for more nodes than any of them has, and else ""."""
    sizes, want = Counter(node.partition for node in its), spec.resources.nodes or 0
    if not 0 < max(sizes.values(), default=0) < want:
        return ""
    asked = f"--nodes ({spec.origins['nodes']})" if "nodes" in spec.origins else "the job"
    there = " and ".join(f"{_place(name)} has {counted(size, 'node')}" for name, size in sizes.items())
    return f"{there}, and {asked} asks for {want}; mnrun nodes shows them"


def _place(partition: str) -> str:
    return f"partition {partition}" if partition else "the cluster"


def _named(name: str, spec: JobSpec, names: Sequence[str]) -> SchedulerError | None:
    """Return the error for a name that is none of `names`, or None if it is one, or if none are known."""
    given, there = spec.batch.text(name), sorted({*names} - {""})
    words = [word for word in re.split(r"[,&|\[\]()*]", given) if word and not word.isdecimal()]
    unknown = [word for word in words if word not in there]
    if not there or not unknown:
        return None
    near = next(filter(None, (nearest(word, there) for word in unknown)), "")
    lack = "you have no" if name in ("account", "qos") else "there is no"
    problem = f"{lack} {_NOUNS.get(name, name)} {' and '.join(unknown)} (--{name}: {spec.origins[name]})"
    return SchedulerError(problem, f"there {_are(there)}{near and f'; did you mean {near}?'}")


def _strange(spec: JobSpec, nodes: Sequence[PartitionNode]) -> SchedulerError | None:
    """Return the error for names in --nodelist or --exclude that no node has, or None."""
    there = {node.node for node in nodes}
    for name in ("nodelist", "exclude"):
        if strange := [one for one in expand(str(spec.value(name) or "")) if one not in there]:
            problem = f"there is no node {fold(strange)} (--{name}: {spec.origins[name]})"
            return SchedulerError(problem, f"the nodes are {fold(there)}")
    return None


def _are(there: Sequence[str]) -> str:
    """Return `is a`, or `are a, b and c`."""
    return f"are {', '.join(there[:-1])} and {there[-1]}" if there[1:] else f"is {there[0]}"


def _amounts(spec: JobSpec, its: Sequence[PartitionNode]) -> SchedulerError | None:
    """Return the error for more nodes than there are, or for more than the largest of them has, or None."""
    if few := too_wide(spec, its):
        return SchedulerError(few)
    want = spec.resources
    cpus, memory = max((p.cpus for p in its), default=0), max((p.memory for p in its), default=0)
    gpus = max((p.gpus for p in its), default=0)
    ranks = {"ntasks_per_node": want.ntasks_per_node or 1, "cpus_per_task": want.cpus_per_task or 1}
    wide = ranks["ntasks_per_node"] * ranks["cpus_per_task"] > cpus
    gpu_options = [name for name in ("gpus_per_node", "gres") if want.gpus_asked and spec.value(name)]
    kinds = set(filter(None, ",".join(p.gpu_types for p in its).split(",")))
    partitions = list(dict.fromkeys(p.partition for p in its))
    where = " or ".join(filter(None, partitions)) or "the cluster"
    for name in gpu_options[:1] if gpus else ():
        if strange := sorted(_types(str(spec.value(name))) - kinds):
            known = f"there {_are(sorted(kinds))}" if kinds else "its GPUs have no type: write a number alone"
            option = f"--{name.replace('_', '-')}: {spec.origins[name]}"
            return SchedulerError(f"{where} has no GPU of type {' or '.join(strange)} ({option})", known)
    asked = [
        *(name for name, number in ranks.items() if wide and number > 1),
        *(["mem"] if memory and _megabytes(spec.batch.text("mem")) > memory else []),
        *(name for name in gpu_options[:1] if want.gpus_asked > gpus),
    ]
    if not asked and 0 < (every := sum(p.cpus for p in its)) < (want.ntasks or 0) * ranks["cpus_per_task"]:
        where = " and ".join(filter(None, partitions)) or "the cluster"
        return SchedulerError(
            f"there are {counted(every, 'CPU')} in {where}, and {asks(spec, ['ntasks'])}; mnrun nodes shows them"
        )
    if not cpus or not asked:
        return None
    held = [f"{size(memory)} of memory"] if memory else []
    there = [counted(cpus, "CPU"), *held, gpus_of(gpus, sorted(kinds))]
    most = f"a node of {where} has at most {', '.join(there[:-1])} and {there[-1]}"
    return SchedulerError(f"{most}, and {asks(spec, asked)}; mnrun nodes shows them")


def asks(spec: JobSpec, names: Sequence[str]) -> str:
    """Return `--mem (command line) asks for 64G`, for each of these options."""
    options = (f"--{name.replace('_', '-')} ({spec.origins[name]}) asks for {spec.value(name)}" for name in names)
    return " and ".join(options)


def _megabytes(text: str) -> float:
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.lower())
    return int(match[1]) * _UNITS[match[2] or "m"] if match else 0


def _types(text: str) -> set[str]:
    """Return the types of GPUs in `a100:2` or `gpu:a100:2,tmp:1`."""
    items = (re.sub("^gpu:", "", item) for item in text.split(",") if re.match(r"gpu:|[^:]+(:\d+)?$", item))
    return {item.partition(":")[0] for item in items if not item.partition(":")[0].isdecimal()} - {"gpu"}

"""Write a job in the options of sbatch and salloc, and explain their refusals. Runs no command."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from mnrun.errors import Impossible, SchedulerError, UsageError
from mnrun.jobspec import BUILT_IN, JobSpec
from mnrun.model import Fault, Layout, Site, Words, job_name
from mnrun.nodeset import counted

if TYPE_CHECKING:
    from mnrun.schedulers.queue import PartitionNode

TEMPLATE = "slurm.sh"

# The order of the directives. A key is sbatch's own long option with _ (sbatch(1)).
_DIRECTIVES = (
    *("job_name", "partition", "account", "qos", "reservation", "constraint", "licenses", "nodelist", "exclude"),
    *("exclusive", "nodes", "ntasks", "ntasks_per_node", "cpus_per_task"),
    *("gres", "gpus_per_node", "gpus", "gpus_per_task"),
    *("mem", "mem_per_cpu", "mem_per_gpu", "time", "output", "error", "mail_type", "mail_user"),
    *("dependency", "array", "signal", "requeue", "export"),
)


def directives(spec: JobSpec, layout: Layout) -> list[tuple[str, str]]:
    """Return (`#SBATCH --option=value`, origin) of each directive. The user's own --slurm words come last."""
    want, even = spec.resources, len(set(layout.ranks)) == 1
    chosen = {
        "job_name": (job_name(spec), "the program's name"),
        "nodes": ("" if layout.open else str(layout.nnodes), layout.why_nodes),
        "ntasks": ("" if even and not want.ntasks else str(layout.ntasks), layout.why_ranks),
        "ntasks_per_node": ("" if layout.open or not even else str(layout.ranks[0]), layout.why_ranks),
        "output": (output(spec), "built-in"),
        "signal": (_by_the_script(spec.batch.text("signal")), ""),
    }
    options = []
    for name in _DIRECTIVES:
        value, why = chosen.get(name) or (spec.value(name), "")
        origin = str(spec.origins.get(name, why))
        _refuse_lines(name, str(value), origin)
        if name == "requeue" and value is False and name in spec.origins:
            options.append(("--no-requeue", origin))  # a site may requeue every job (JobRequeue)
        if value not in ("", None, False):
            text = f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
            options.append((shlex.quote(text), origin))
    _refuse_twice(spec, {*_SHAPE, *(text.split("=")[0].strip("'-") for text, _ in options)})
    options += [(shlex.quote(f"--{word}"), str(spec.word_origins["slurm", word])) for word in spec.batch.slurm]
    return [(f"#SBATCH {option}", origin) for option, origin in options]


def output(spec: JobSpec) -> str:
    """Return the pattern of the file of the job's output. By default, the tasks of an array have the array's number."""
    return spec.batch.text("output") or ("%x-%A_%a.out" if spec.batch.text("array") else "%x-%j.out")


_SHAPE = ("nodes", "ntasks", "ntasks-per-node")  # mnrun chooses them for each job


def _refuse_twice(spec: JobSpec, written: Collection[str]) -> None:
    """Raise UsageError if a word of --slurm names an option that mnrun writes into the script itself."""
    for word in spec.batch.slurm:
        name, equals, value = word.partition("=")
        if name in written and not (name == "exclusive" and value):  # a value that mnrun has no option for
            problem = f"--slurm {word}: mnrun sets --{name} itself ({spec.word_origins['slurm', word]})"
            raise UsageError(problem, f"write --{name}{' ' if equals else ''}{value}")


def _refuse_lines(name: str, value: str, origin: str) -> None:
    """Raise if a value is more than its own line of the script: bash would run the rest of it."""
    if re.search(r"[\x00-\x1f\x7f]", value):
        option = f"--{name.replace('_', '-')}"
        problem = f"{option} {value!r} contains a tab, a newline or another control character ({origin})"
        raise UsageError(problem, "name the job with --job-name" if name == "job_name" else "")


def _by_the_script(signal: str) -> str:
    """Turn USR1@120 into B:USR1@120. The signal then goes to the script alone, which passes it on to every rank."""
    before, _, after = signal.rpartition(":")
    return signal if not signal or "B" in before.upper() else f"{before}B:{after}"


_TASKS = ("ntasks", "ntasks_per_node", "cpus_per_task")
_GPUS = ("gres", "gpus_per_node", "gpus", "gpus_per_task")
_MEMORY = ("mem", "mem_per_cpu", "mem_per_gpu")
_WHICH = ("nodelist", "exclude", "constraint", "exclusive")
# Words of sbatch's errors, and the options of ours that they may be about.
_REFUSALS = {
    "partition": ("partition", "account", "qos"),
    "account": ("account", "partition"),
    "qos": ("qos",),
    "time limit": ("time",),
    "node configuration": ("nodes", *_TASKS, *_GPUS, *_MEMORY, *_WHICH),
    "node count": ("nodes",),
    "node name": ("nodelist", "exclude"),
    "processors": ("nodes", *_TASKS),
    "cpu count": ("nodes", *_TASKS),
    "task count": ("nodes", *_TASKS),
    "generic resource": _GPUS,
    "trackable resource": _GPUS,
    "gres": _GPUS,
    "feature": ("constraint",),
    "constraint": ("constraint",),
    "reservation": ("reservation",),
    "dependency": ("dependency",),
    "license": ("licenses",),
    "array": ("array",),
    "memory": _MEMORY,
    "mail": ("mail_type", "mail_user"),
    "signal": ("signal",),
    "invalid option": ("slurm",),
    "unrecognized option": ("slurm",),
}


def shortage(
    message: str,
    spec: JobSpec,
    nodes: Callable[[], Sequence[PartitionNode]],
    environ: Mapping[str, str] = {},
    names: Callable[[str], Sequence[str]] = lambda option: (),
) -> str:
    """Return what there is, if the job asks for something else, and "" if that is not why Slurm refuses. `environ` is
    salloc's. A batch job has none of it. `names` asks Slurm for the names that an option of the user's may have."""
    from mnrun.schedulers.slurm import offers

    if "node configuration" in message.lower():
        its = _its_nodes(spec, nodes, environ)
        return _too_wide(spec, its) or offers.amounts(spec, its)
    name = offers.refused(message)
    there: Sequence[PartitionNode] = ()
    if name == "partition":
        with suppress(SchedulerError):
            there = nodes()
    elif name == "constraint":
        there = _its_nodes(spec, nodes, environ)
    return offers.named(name, spec, there, names)


def doubts(spec: JobSpec, nodes: Callable[[], Sequence[PartitionNode]], environ: Mapping[str, str] = {}) -> list[Fault]:
    """Return the faults of a request. It may ask for more nodes or time than its partitions have, or its batch job may
    lack variables. `environ` is salloc's, and {} for a batch job.

    At most sites, sbatch and salloc take a job with too much time, and it waits (slurm.conf(5), EnforcePartLimits).
    Slurm is asked only about a job that names a time, or has several nodes.
    """
    texts = {} if environ else {"export": _left_behind(spec)}
    if spec.batch.text("time") or (spec.resources.nodes or 1) != 1:
        its = _its_nodes(spec, nodes, environ)
        texts.update(nodes=_too_wide(spec, its), time=_too_long(spec, its))
    return [Fault(code, text) for code, text in texts.items() if text]


def _left_behind(spec: JobSpec) -> str:
    """Return a warning of the variables of -x that --export keeps from a batch job (sbatch(1), --export), or "".

    Lines of --setup, modules, and with NONE the user's login shell on the node may set them.
    """
    export = spec.batch.text("export")
    names = [word.partition("=")[0] for word in export.split(",")]
    lost = [v.name for v in spec.program.explicit if v.inherited and v.name not in names]
    if not export or "ALL" in map(str.upper, names) or not lost or spec.batch.setup or spec.start.module:
        return ""
    origin = spec.origins.get("export", "")
    return (
        f"--export {export} ({origin}) keeps {', '.join(lost)} from the job; add it there, or write -x {lost[0]}=VALUE"
    )


def _its_nodes(
    spec: JobSpec, nodes: Callable[[], Sequence[PartitionNode]], environ: Mapping[str, str]
) -> list[PartitionNode]:
    """Return the nodes of the job's partitions, or [] if Slurm does not answer."""
    # salloc(1), INPUT ENVIRONMENT VARIABLES
    names = (spec.batch.text("partition") or environ.get("SALLOC_PARTITION", "")).split(",")
    with suppress(SchedulerError):
        return [node for node in nodes() if (node.partition in names if names[0] else node.default)]
    return []


def _too_wide(spec: JobSpec, its: Sequence[PartitionNode]) -> str:
    """Return the sizes of the job's partitions if the job asks for more nodes than any of them has, and else ""."""
    sizes, want = Counter(node.partition for node in its), spec.resources.nodes or 0
    if not 0 < max(sizes.values(), default=0) < want:
        return ""
    asked = f"--nodes ({spec.origins['nodes']})" if "nodes" in spec.origins else "the job"
    there = " and ".join(f"partition {name} has {counted(size, 'node')}" for name, size in sizes.items())
    return f"{there}, and {asked} asks for {want}: mnrun nodes"


def _too_long(spec: JobSpec, its: Sequence[PartitionNode]) -> str:
    """Return the limits of the job's partitions if the job asks for more time than any of them allows, and else ""."""
    time, limits = spec.batch.text("time"), {node.partition: node.limit for node in its}
    if not time or not limits or _seconds(time) <= max(map(_seconds, limits.values())):
        return ""
    allowed = " and ".join(f"{limit} in partition {name}" for name, limit in limits.items())
    asked = f"--time {time} ({spec.origins['time']})"
    return f"{asked} is above the limit, {allowed}, so the job may never start; ask for less"


def _seconds(time: str) -> float:
    """Return a time limit in seconds, as sbatch reads it and sinfo writes it. Words mean that there is no limit."""
    if not re.fullmatch(r"(\d+-)?[\d:]*", time):
        return math.inf
    days, dash, rest = time.rpartition("-")
    parts = [int(part or 0) for part in rest.split(":")]
    units = (3600, 60, 1) if dash or len(parts) > 2 else (60, 1)
    return int(days or 0) * 86400 + sum(unit * part for unit, part in zip(units, parts)) or math.inf


def refusal(message: str, spec: JobSpec) -> SchedulerError:
    """Return sbatch's own words as an error, with the given options that they may be about."""
    about = {name for words, names in _REFUSALS.items() if words in message.lower() for name in names}
    names = [name for name in spec.origins if name in about and spec.origins[name] != BUILT_IN]
    options = [f"--{name.replace('_', '-')} ({spec.origins[name]})" for name in names]
    return SchedulerError(" | ".join(message.splitlines()), f"see {' and '.join(options)}" if options else "")


def refuse(spec: JobSpec, site: Site) -> None:
    """Raise Impossible if the job has GPUs that its steps could not share.

    Up to 21.08, --overlap shares CPUs alone, and the second step of a launch would wait for ever.
    """
    options = f"{spec.resources.gpus}{spec.resources.gpus_per_node}{spec.resources.gpus_per_task}" or re.search(
        r"\bgpu\b", spec.resources.gres
    )
    words = any(re.match(r"gpus\b|(gres|tres-per-\w+)=.*\bgpu\b", word) for word in spec.batch.slurm)
    if site.slurm < (22, 5) and not spec.resources.no_gpu and (options or words or any(site.gpus.values())):
        problem = f"Slurm {site.slurm[0]}.{site.slurm[1]:02} does not let a job's steps share its GPUs"
        raise Impossible(problem, "use --no-gpu, or Slurm 22.05 or newer")


def request(spec: JobSpec, options: Sequence[str]) -> Words:
    """Return the salloc command for the job. `options` are the names of those that stand in it as in sbatch."""
    want = spec.resources
    each, rest = divmod(want.ntasks or 0, want.nodes or 1)
    # Without a number for each node, Slurm may take 3 CPUs on one node and 1 on another.
    even = each if (want.nodes or 0) > 1 and not rest else 0
    values = {
        "-N": want.nodes,
        "-n": want.ntasks,
        "--ntasks-per-node": want.ntasks_per_node or even,
        "-c": want.cpus_per_task,
        "--gres": want.gres,
        "--gpus-per-node": want.gpus_per_node,
        "-w": want.nodelist,
        "--exclude": want.exclude,
    }
    words = [word for flag, value in values.items() if value for word in (flag, str(value))]
    for name in options:
        if value := spec.value(name):
            words.append(f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}"))
    return ("salloc", *words)

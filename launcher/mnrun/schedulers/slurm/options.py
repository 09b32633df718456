"""Write a job in the options of sbatch and salloc, and explain their refusals. Runs no command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from mnrun import formats
from mnrun.errors import Impossible, SchedulerError, UsageError
from mnrun.jobspec import BUILT_IN, JobSpec
from mnrun.model import Fault, Layout, Site, Words, job_name
from mnrun.schedulers import writing
from mnrun.schedulers.slurm.details import details

if TYPE_CHECKING:
    from mnrun.schedulers.queue import PartitionNode

# The order of the directives. A key is sbatch's own long option with _ (sbatch(1)).
_DIRECTIVES = (
    *("job_name", "partition", "account", "qos", "reservation", "constraint", "licenses", "nodelist", "exclude"),
    *("exclusive", "nodes", "ntasks", "ntasks_per_node", "cpus_per_task"),
    *("gres", "gpus_per_node", "gpus", "gpus_per_task"),
    *("mem", "mem_per_cpu", "mem_per_gpu", "time", "output", "error", "mail_type", "mail_user"),
    *("dependency", "array", "signal", "requeue", "export"),
)


def directives(spec: JobSpec, layout: Layout, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (`#SBATCH --option=value`, origin) of each directive. The user's own --slurm words come last."""
    want, even = spec.resources, len(set(layout.ranks)) == 1
    chosen = {
        "job_name": (job_name(spec), "the program's name"),
        "nodes": ("" if layout.open else str(layout.nnodes), layout.why_nodes),
        "ntasks": ("" if even and not want.ntasks else str(layout.ntasks), layout.why_ranks),
        "ntasks_per_node": ("" if layout.open or not even else str(layout.ranks[0]), layout.why_ranks),
        "output": (writing.output(spec), "built-in"),
        "signal": (_by_the_script(spec.batch.text("signal")), ""),
    }
    options = []
    for name in _DIRECTIVES:
        value, why = chosen.get(name) or (spec.value(name), "")
        origin = str(spec.origins.get(name, why))
        writing.refuse_lines(name, str(value), origin)
        if name == "requeue" and value is False and name in spec.origins:
            options.append(("--no-requeue", origin))  # a site may requeue every job (JobRequeue)
        if value not in ("", None, False):
            text = f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
            options.append((shlex.quote(text), origin))
    _refuse_twice(spec, {*_SHAPE, *(text.split("=")[0].strip("'-") for text, _ in options)})
    options += [(shlex.quote(f"--{word}"), str(spec.word_origins["slurm", word])) for word in words(spec)]
    return [(f"#SBATCH {option}", origin) for option, origin in options]


def words(spec: JobSpec) -> tuple[str, ...]:
    """Return the words of --slurm, without their --."""
    return spec.batch.own.get("slurm", ())


_SHAPE = ("nodes", "ntasks", "ntasks-per-node")  # mnrun chooses them for each job


def _refuse_twice(spec: JobSpec, written: Collection[str]) -> None:
    """Raise UsageError if a word of --slurm names an option that mnrun writes into the script itself."""
    for word in words(spec):
        name, equals, value = word.partition("=")
        if name in written and not (name == "exclusive" and value):  # a value that mnrun has no option for
            problem = f"--slurm {word}: mnrun sets --{name} itself ({spec.word_origins['slurm', word]})"
            raise UsageError(problem, f"write --{name}{' ' if equals else ''}{value}")


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


def doubts(spec: JobSpec, nodes: Callable[[], Sequence[PartitionNode]], environ: Mapping[str, str] = {}) -> list[Fault]:
    """Return the faults of a request. At most sites, sbatch and salloc take a job with too much time, and it waits
    (slurm.conf(5), EnforcePartLimits). Slurm is asked only about a job that names a time, or has several nodes."""
    texts = {} if environ else {"export": _left_behind(spec)}
    if spec.batch.text("time") or (spec.resources.nodes or 1) != 1:
        from mnrun.schedulers import offers

        its: list[PartitionNode] = []
        with suppress(SchedulerError):
            its = offers.of_job(spec, nodes(), partition(environ))
        texts.update(nodes=offers.too_wide(spec, its), time=_too_long(spec, its))
    return [Fault(code, text) for code, text in texts.items() if text]


def _left_behind(spec: JobSpec) -> str:
    """Return a warning of the variables of -x that --export keeps from a batch job (sbatch(1), --export), or "". Lines
    of --setup, modules, and with NONE the user's login shell on the node may set them."""
    export = spec.batch.text("export")
    names = [word.partition("=")[0] for word in export.split(",")]
    lost = [v.name for v in spec.program.explicit if v.inherited and v.name not in names]
    if not export or "ALL" in map(str.upper, names) or not lost or spec.batch.setup or spec.start.module:
        return ""
    origin = spec.origins.get("export", "")
    return (
        f"--export {export} ({origin}) keeps {', '.join(lost)} from the job; add it there, or write -x {lost[0]}=VALUE"
    )


def partition(environ: Mapping[str, str]) -> str:
    """Return the partition that salloc takes by itself (salloc(1), INPUT ENVIRONMENT VARIABLES)."""
    return environ.get("SALLOC_PARTITION", "")


def _too_long(spec: JobSpec, its: Sequence[PartitionNode]) -> str:
    """Return the limits of the job's partitions if the job asks for more time than any of them allows, and else ""."""
    time, limits = spec.batch.text("time"), {node.partition: node.limit for node in its}
    if not time or not limits or formats.seconds(time) <= max(map(formats.seconds, limits.values())):
        return ""
    allowed = " and ".join(f"{limit} in partition {name}" for name, limit in limits.items())
    asked = f"--time {time} ({spec.origins['time']})"
    return f"{asked} is above the limit, {allowed}, so the job may never start; ask for less"


def refusal(message: str, spec: JobSpec) -> SchedulerError:
    """Return sbatch's own words as an error, with the given options that they may be about."""
    about = {name for words, names in _REFUSALS.items() if words in message.lower() for name in names}
    names = [name for name in spec.origins if name in about and spec.origins[name] != BUILT_IN]
    options = [f"--{name.replace('_', '-')} ({spec.origins[name]})" for name in names]
    return SchedulerError(" | ".join(message.splitlines()), f"see {' and '.join(options)}" if options else "")


def refuse(spec: JobSpec, site: Site) -> None:
    """Raise Impossible if the job has GPUs that its steps could not share. Up to 21.08, --overlap shares CPUs alone,
    and the second step of a launch would wait for ever."""
    options = f"{spec.resources.gpus}{spec.resources.gpus_per_node}{spec.resources.gpus_per_task}" or re.search(
        r"\bgpu\b", spec.resources.gres
    )
    theirs = any(re.match(r"gpus\b|(gres|tres-per-\w+)=.*\bgpu\b", word) for word in words(spec))
    year, month = details(site).version
    if (year, month) < (22, 5) and not spec.resources.no_gpu and (options or theirs or any(site.gpus.values())):
        problem = f"Slurm {year}.{month:02} does not let a job's steps share its GPUs"
        raise Impossible(problem, "use --no-gpu, or Slurm 22.05 or newer")


def request(spec: JobSpec, options: Sequence[str]) -> Words:
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

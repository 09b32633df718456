"""Write a job as a batch script like a person's: the scheduler's lines, modules, and one call of mnrun. Pure.

The script contains every decision made at submission, each value with its origin. The call of mnrun in the job decides
the rest, by facts that only the nodes have: their MPIs, networks and limits.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from mnrun import __version__
from mnrun.config.options import BY_NAME, SERVICE
from mnrun.errors import UsageError
from mnrun.files import render
from mnrun.jobspec import BUILT_IN, JobSpec, split_gres
from mnrun.model import NODES, ULIMITS, Layout, Plan, Words, job_name
from mnrun.planning.layout import size
from mnrun.schedulers import BatchScheduler

# Options that the call in the job repeats, in this order.
_SINGLE = (
    *("mode", "launcher", "mpi", "bind_to", "connect", "container_per", "gpu_bind", "no_gpu", "fabric", "require"),
    *("reach", "image", "stage", "stage_dir", "stage_limit", "pull", "pull_timeout", "image_cache"),
    *("runtime", "podman_root", "privileged", "hardened", "nv"),
    *("no_home", "label", "split_output", "ports", "start_timeout", "job_dir", "timeline"),
    *SERVICE,
    *("watch", "notify", "notify_on", "scheduler", "keep", "force", "verbose", "quiet"),
)
_SHAPE = ("cpus_per_task", "gpus_per_node", "gpus_per_task")


@dataclass(frozen=True)
class Line:
    """A line of the script, and the reason for it."""

    text: str
    why: str


def write(plan: Plan, scheduler: BatchScheduler, call: Words, source: str, environ: Mapping[str, str]) -> str:
    """Return the script of `plan`, which starts mnrun by the words `call`. `source` is its origin, for a comment."""
    spec = plan.spec
    script = ("--script", spec.program.script) if spec.program.script else ()
    variables = list(_variables(spec))
    directives = [Line(text, why) for text, why in scheduler.directives(spec, plan.layout, environ)]
    text = render(
        f"{scheduler.OPTION.name}.sh",
        spec.batch.templates,
        otherwise="batch.sh",
        submit=scheduler.SUBMIT,
        title=_one_line(_title(plan)),
        version=__version__,
        source=_one_line(source),
        directives=(_aligned if scheduler.COMMENTS else _above)(directives),
        setup=_aligned(_setup(spec)),
        options=_aligned(list(_options(spec))),
        variables=_aligned(variables),
        mnrun=shlex.join(call),
        command=shlex.join((*script, "--", *spec.program.command)),
    )
    if not all(line.text in text for line in variables):
        problem = f"the template in {spec.batch.templates} has no {{{{ variables }}}}, which this job needs"
        raise UsageError(problem, "take mnrun_variables over from sbatch_templates/batch.sh")
    return text


def _title(plan: Plan) -> str:
    spec = plan.spec
    mode = "" if "mode" in spec.start.undecided else f", {spec.start.mode}"
    return f"{job_name(spec)}: {size(plan.layout)}{mode}, {spec.container.runtime}"


# Makes `module` known to a batch shell that lacks it, as system/modules.py does for a live run.
_MODULES = "type module >/dev/null 2>&1 || [ ! -r /etc/profile ] || . /etc/profile >/dev/null 2>&1 || :"


def _setup(spec: JobSpec) -> list[Line]:
    lines = [Line(_MODULES, "where a login shell has it")] if spec.start.module else []
    for name in spec.start.module:
        lines.append(Line(f"module load {shlex.quote(name)}", str(spec.word_origins["module", name])))
    for limit in spec.batch.ulimit:
        name, _, value = limit.partition("=")
        lines.append(Line(f"ulimit -{ULIMITS[name]} {shlex.quote(value)}", str(spec.word_origins["ulimit", limit])))
    return [*lines, *_lines(spec)]


def _lines(spec: JobSpec) -> list[Line]:
    """Return the user's own lines, with their origin above them. A comment behind or between them could stand in the
    middle of a quoted word or a here-document."""
    lines: list[Line] = []
    above = ""
    for text, origin in zip(spec.batch.setup, map(str, spec.setup_origins)):
        if origin != above:
            lines.append(Line(f"# setup: {_one_line(origin)}", ""))
        lines.append(Line(text, ""))
        above = origin
    return lines


def _options(spec: JobSpec) -> Iterator[Line]:
    for name in _SINGLE:
        origin = spec.origins.get(name, BUILT_IN)
        value = _value(spec, name)
        if origin != BUILT_IN and value is not None and name not in spec.start.undecided:
            yield from _option(name, value, origin)
    if split_gres(spec.resources.gres)[1]:
        # A step that asks for GPUs alone gets no other gres.
        yield from _option("gres", spec.resources.gres, spec.origins["gres"])
    origins = [origin for (name, _), origin in spec.word_origins.items() if name == "bind"]
    for mount, origin in zip(spec.container.binds, origins):
        yield from _option("bind", str(mount), origin)
    yield from _option("chdir", spec.program.chdir, spec.origins.get("chdir", "the current directory"))
    for name, words in (("container_args", spec.container.args), ("mpi_args", spec.start.mpi_args)):
        for word in words:
            yield from _option(name, shlex.quote(word), spec.word_origins[name, word])
    for limit in spec.batch.ulimit:
        yield from _option("ulimit", limit, f"{spec.word_origins['ulimit', limit]}; the ranks keep it")
    for path in spec.program.env_files:
        yield from _option("env_file", path, "read in the job")
    for variable in spec.program.explicit:
        if variable.value is None:
            yield from _option("env", f"!{variable.name}", f"taken away: {variable.why}")
        elif variable.inherited:
            yield from _option("env", variable.name, f"{variable.why}; its value is the job's own")


# What a launcher in a container has not to be told: places of the submitting machine, and what its nodes are made of.
_LEFT = (
    *("job_dir", "timeline", "image_cache", "stage", "stage_dir", "stage_limit", "scheduler"),
    *("runtime", "bind", "env_file", "chdir"),
)


def call(spec: JobSpec, layout: Layout) -> Words:
    """Return the options and the program of an mnrun in a container, which runs a job whose nodes are there. It has the
    job's variables, so that no word has a value."""
    lines = [line.text for line in _options(spec)]
    left = tuple(f"--{name.replace('_', '-')}" for name in _LEFT)
    options = [word for line in lines for word in shlex.split(line) if word.partition("=")[0] not in left]
    shape = ["-N", str(layout.nnodes), "--ntasks-per-node", str(layout.ranks[0])]
    shape += [f"--{name.replace('_', '-')}={spec.value(name)}" for name in _SHAPE if name in spec.origins]
    chdir = [f"--chdir={spec.program.chdir}"] if "chdir" in spec.origins else []
    passed = [word for name in spec.program.forwarded for word in ("-x", name)]
    program = ["--script", spec.program.script] if spec.program.script else []
    return (*shape, *chdir, *options, *passed, *program, "--", *spec.program.command)


def _variables(spec: JobSpec) -> Iterator[Line]:
    """Yield the variables with values. They are no options: everybody can read a command line."""
    for variable in spec.program.explicit:
        if variable.value is not None and not variable.inherited:
            yield Line(_quoted(f"{variable.name}={variable.value}"), variable.why)


def _option(name: str, value: object, origin: object) -> Iterator[Line]:
    flag = f"--{name.replace('_', '-')}"
    if BY_NAME[name].kind == "flag":
        if value:
            yield Line(flag, str(origin))
        return
    yield Line(f"{flag}={_quoted(str(value))}", str(origin))


def _quoted(text: str) -> str:
    """Return a word for the shell, as a person would quote it. In an array, bash 5.2 puts \\x01 in front of \\x01 and
    \\x7f between double quotes."""
    return f'"{text}"' if "'" in text and not re.search(r'["$`\\!\x01\x7f]', text) else shlex.quote(text)


def _value(spec: JobSpec, name: str) -> object:
    if name == "no_home":
        return not spec.container.home
    value = spec.value(name)
    return f"{value}s" if BY_NAME[name].kind == "seconds" else value


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text)


def _aligned(lines: list[Line]) -> list[str]:
    """Return each line with its reason as a comment, in one column for lines of up to 60 characters."""
    lines = [replace(line, why=_one_line(line.why)) for line in lines]
    width = max((len(line.text) for line in lines if line.why and len(line.text) <= 60), default=0)
    return [f"{line.text:<{width}}  # {line.why}" if line.why else line.text for line in lines]


def _above(lines: list[Line]) -> list[str]:
    """Return the lines with the reason of each above it, and once above those that share it."""
    found = []
    for before, line in zip((Line("", ""), *lines), lines):
        found += [f"# {_one_line(line.why)}"] if line.why not in ("", before.why) else []
        found.append(line.text)
    return found


def on_paper(layout: Layout) -> Layout:
    """Return the layout with a placeholder for the nodes, which are not held yet."""
    return replace(layout, nodes=(NODES,) * layout.nnodes)

"""Write a job in the options of qsub(1B), and refuse what PBS has not. Runs no command.

OpenPBS and PBS Pro have chunks (`select`), which `place=scatter` puts on nodes of their own: by default, several may
come to one node (seen, 23.06). Torque and Moab have `nodes=N:ppn=K`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from mnrun import formats, nodeset
from mnrun.errors import Impossible
from mnrun.jobspec import JobSpec
from mnrun.model import Layout, job_name
from mnrun.schedulers import arrays, common, writing
from mnrun.schedulers.pbs import OPTION, TITLE
from mnrun.schedulers.writing import Request, Row, Shape

DIALECTS = {"openpbs": "OpenPBS", "torque": "Torque"}
# What a dialect has no words for, with a remedy.
_REFUSED = {"exclude": "name the nodes with --nodelist", "mem_per_gpu": "use --mem or --mem-per-cpu"}
_OF_TORQUE = {"qos": "leave it out, or name a queue with --partition"}
# A letter in the name of a file -> bash for its value.
_LETTERS = {
    **dict.fromkeys("jA", "${PBS_JOBID%%[!0-9]*}"),
    **{"a": "${PBS_ARRAY_INDEX-${PBS_ARRAYID-4294967294}}", "N": "$HOSTNAME", "u": "$LOGNAME", "%": "%"},
}


def lines(spec: JobSpec, layout: Layout, dialect: str, jobs: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (line of the script, origin) for each option of the job. `jobs` has PBS's id of each job of a dependency
    that PBS knows. Raises Impossible for what this dialect lacks."""
    refused = _REFUSED if dialect == "torque" else {**_REFUSED, **_OF_TORQUE}
    writing.refuse_options(spec, DIALECTS[dialect], refused, "name them in the chunk of a profile")
    shape = Shape(layout.nnodes, max(layout.ranks) * (spec.resources.cpus_per_task or 1))
    request = Request(spec, layout, shape, OPTION.name, dialect, jobs)
    first = [("-S /bin/bash", "a user's login shell may be another"), (f"-l {_nodes(request)}", layout.why_ranks)]
    return [*writing.lines(request, first, _STYLE), *_shell(request)]


def _torque(request: Request) -> bool:
    return request.dialect == "torque"


def _shell(request: Request) -> Iterator[tuple[str, str]]:
    """Yield the lines of bash in place of options: a job begins in the home directory, and PBS fills in no names."""
    if names := writing.exported(request.spec):
        yield f"{writing.CARRIED} {','.join(names)}", str(request.spec.origins.get("export", "built-in"))
    yield 'cd -- "$PBS_O_WORKDIR" || exit 122', "the job begins where it was submitted"
    if tasks := _positional(request):
        listed = f"mnrun_tasks=(- {' '.join(map(str, tasks))})"
        yield f"{listed}; PBS_ARRAY_INDEX=${{mnrun_tasks[PBS_ARRAY_INDEX]}}", "PBS counts these tasks from 1"
    for name, sign in (("output", ">"), ("error", "2>")):
        if text := _opened(request, name):
            both = " 2>&1" if name == "output" and not request.text("error") else ""
            file = writing.in_bash(text, {**_LETTERS, "x": job_name(request.spec)})
            yield f"exec {sign}{file}{both}", str(request.spec.origins.get(name, "built-in"))


def _opened(request: Request, option: str) -> str:
    """Return the pattern of a file that the script itself opens, or "" for one that PBS opens. PBS reads a colon as
    the end of a host's name, and Torque copies the file at the end of the job alone."""
    text = request.text(option)
    if _torque(request):
        return writing.output(request.spec) if option == "output" else text
    return text if ":" in text or ("\\" not in text and "%" in text.replace("%%", "")) else ""


def _file(request: Request, option: str) -> str:
    return "" if _opened(request, option) else request.text(option).replace("%%", "%").replace("\\", "")


def output(spec: JobSpec, dialect: str) -> str:
    """Return the pattern of the file of the job's output. By default, it is OpenPBS's own: NAME.o123, NAME.o123.4."""
    if dialect == "torque" or spec.batch.text("output"):
        return writing.output(spec)
    return _name(spec, False) + (".o%A.%a" if spec.batch.text("array") else ".o%j")


def _name(spec: JobSpec, torque: bool) -> str:
    most = 15 if torque else 230
    bad, rule = rf"[^A-Za-z0-9._+-]|(?<=^.{{{most}}}).+", f"letters, digits and . _ - +, and at most {most} of them"
    return writing.named(spec, TITLE, bad, rule)[:most]


def _nodes(request: Request) -> str:
    """Return the nodes, as groups of those that are alike. A named one is a group of its own."""
    named = [*request.nodes("nodelist"), *[""] * request.layout.nnodes]
    groups = groupby((name, _chunk(request, ranks)) for name, ranks in zip(named, request.layout.ranks))
    counted = [(host, len(list(same)), chunk) for (host, chunk), same in groups]
    if _torque(request):
        return "nodes=" + "+".join(f"{host or count}:{chunk}" for host, count, chunk in counted)
    return "select=" + "+".join(f"{count}:{chunk}{host and f':host={host}'}" for host, count, chunk in counted)


def _chunk(request: Request, ranks: int) -> str:
    """Return the resources of a node with so many ranks. One of which the job asks for none is left out."""
    cpus = ranks * (request.spec.resources.cpus_per_task or 1)
    here = request._replace(layout=replace(request.layout, ranks=(ranks,)), shape=Shape(1, cpus))
    gpus = request.site("gpus", "gpus={gpus}" if _torque(request) else "ngpus={gpus}")
    usual = f"ppn={{cpus}}:{gpus}" if _torque(request) else f"ncpus={{cpus}}:mpiprocs={{ranks}}:{gpus}:mem={{mem}}"
    pattern = request.site("chunk", usual)
    kind = writing.gpu_type(here, pattern)
    memory = formats.megabytes(request.text("mem")) if request.text("mem") else here.megabytes * cpus
    known = {"cpus": str(cpus), "ranks": str(ranks), "gpus": str(here.gpus or ""), "type": kind}
    known["mem"] = f"{memory}mb" if memory else ""
    parts = (part for part in pattern.split(":") if all(known.get(k, k) for k in re.findall(r"\{(\w+)\}", part)))
    wanted = (name if _torque(request) else f"{name}=True" for name in writing.features(request, TITLE))
    return ":".join([*(writing.filled(part, known) for part in parts), *wanted])


def _place(request: Request) -> str:
    if _torque(request):
        return "naccesspolicy=singlejob" if request.text("exclusive") else ""
    first, *rest = request.site("place", "scatter").split(":")
    alone = ["excl"] if request.text("exclusive") and not any("excl" in part for part in rest) else []
    return f"place={':'.join([first, *alone, *rest])}"


def _queue(request: Request) -> str:
    """Return the queue. A reservation of OpenPBS is one."""
    reserved, named = request.text("reservation") if not _torque(request) else "", request.text("partition")
    if reserved and named:
        raise Impossible(f"--partition {named}: a reservation of PBS is a queue itself", "leave --partition out")
    return reserved or named or request.site("queue", "")


def _licenses(request: Request) -> str:
    named = writing.licenses(request)
    if _torque(request) and any(count != "1" for _, count in named):
        problem = f"--licenses {request.text('licenses')}: Torque's software has no number"
        raise Impossible(problem, "leave the number out, or name it in your scheduler's words, with --pbs")
    return ",".join(f"software={name}" if _torque(request) else f"{name}={count}" for name, count in named)


def _memory(request: Request) -> str:
    """Return the memory by which Torque counts: that of all nodes, or of each process."""
    if not _torque(request) or not request.megabytes:
        return ""
    whole = formats.megabytes(request.text("mem")) * request.layout.nnodes if request.text("mem") else 0
    return f"mem={whole}mb" if whole else f"pmem={request.megabytes}mb"


def _depend(request: Request) -> str:
    """Return the dependencies. PBS ends a job at once, without a word, if one that it waits for did not end as asked,
    or is forgotten (seen, 23.06). So it waits for any end, and for no forgotten one: mnrun judges in the job."""
    found = []
    for kind, of in writing.dependencies(request.spec, "PBS waits for jobs by their ids", (*writing.ENDS, "after")):
        for job in (request.jobs[job] for job in of if job in request.jobs):
            of_array = "array" if _torque(request) and job.endswith("[]") else ""
            found.append(f"{'after' if kind == 'after' else 'afterany'}{of_array}:{job}")
    return f"depend={','.join(found)}" if found else ""


def _positional(request: Request) -> list[int]:
    """Return the tasks that OpenPBS can count by their positions alone, since it takes one range, or []."""
    tasks = [] if _torque(request) else arrays.tasks(request.text("array"))
    return [] if arrays.one_range(tasks) else tasks


def _array(request: Request) -> str:
    if not (text := request.text("array")):
        return ""
    tasks, most = arrays.tasks(text), f"%{request.at_once}" if request.at_once else ""
    listed = text.partition("%")[0] if ":" not in text else ",".join(map(str, tasks))
    return f"-t {listed}{most}" if _torque(request) else f"-J {arrays.one_range(tasks) or f'1-{len(tasks)}'}{most}"


def _variables(request: Request) -> str:
    """Return the variables of mnrun's own. Everybody may read them (qstat -f), so there are no others."""
    array = arrays.assigned(request.text("array")) if _positional(request) else ""
    return ",".join(filter(None, (writing.cpus(request), array, writing.told(request.spec))))


_OPTIONS: tuple[writing.Row, ...] = (
    ("exclusive", "-l", _place),
    ("mem", "-l", _memory),
    ("time", "-l", lambda job: f"walltime={s // 3600}:{s // 60 % 60:02}:{s % 60:02}" if (s := job.seconds) else ""),
    ("licenses", "-l", _licenses),
    ("qos", "-l", lambda job: f"qos={job.text('qos')}" if job.text("qos") else ""),
    ("reservation", "-l", lambda job: f"advres={name}" if (name := job.text("reservation")) and _torque(job) else ""),
    ("partition", "-q", _queue),
    ("job_name", "-N", lambda job: _name(job.spec, _torque(job))),
    ("account", "-P", writing.project),
    ("account", "-A", writing.account),
    ("array", "", _array),
    ("dependency", "-W", _depend),
    ("mail_type", "-m", lambda job: writing.mail(job.spec)),
    ("mail_user", "-M", lambda job: job.text("mail_user")),
    ("requeue", "-r", lambda job: "y" if job.text("requeue") else "n"),
    ("cpus_per_task", "-v", _variables),
    ("output", "-o", lambda job: _file(job, "output")),
    ("error", "-e", lambda job: _file(job, "error")),
    ("error", "-j", lambda job: "" if job.text("error") else "oe"),
    ("output", "-k", lambda job: "" if _torque(job) else "doe"),
)
_STYLE = writing.Style("#PBS", shlex.quote, _OPTIONS, ("-l", "-W"), "TERM", parts=True)

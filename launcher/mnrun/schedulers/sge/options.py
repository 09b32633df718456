"""Write a job in the options of qsub(1), and refuse what Grid Engine has not. Runs no command.

A consumable resource counts for each slot. A job of mnrun's has K slots on each of N hosts: it needs a parallel
environment (PE) with the rule K, or `$pe_slots` for one host (sge_pe(5)).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from mnrun import formats
from mnrun.errors import Impossible
from mnrun.jobspec import JobSpec
from mnrun.model import Layout
from mnrun.nodeset import counted
from mnrun.schedulers import arrays, common, writing
from mnrun.schedulers.sge import TITLE
from mnrun.schedulers.writing import Request, Shape

Pe = Mapping[str, str]  # attribute -> value, as `qconf -sp` prints them


_REFUSED = {"qos": "leave it out, or name a queue with --partition", "mem_per_gpu": "use --mem or --mem-per-cpu"}
_MEMORY = "m_mem_free"  # of a slot, unless the profile names another
_ALWAYS = (
    ("-S /bin/bash", "a queue's own shell may be another"),
    ("-cwd", "the job begins where it was submitted"),
    ("-notify", "Grid Engine warns the job before it kills it"),
)
_PATTERNS = dict(zip("xjAaNu%", ["$JOB_NAME", "$JOB_ID", "$JOB_ID", "$TASK_ID", "$HOSTNAME", "$USER", "%"]))


def lines(spec: JobSpec, layout: Layout, pes: Mapping[str, Pe] | None) -> list[tuple[str, str]]:
    """Return (line of the script, origin) for each option of the job. Raises Impossible for what Grid Engine lacks."""
    writing.refuse_options(spec, TITLE, _REFUSED, "write --sge '-l NAME=N', with the number for a slot")
    shape = writing.shape(layout, spec.resources.cpus_per_task or 1, TITLE)
    pe = choose(shape, spec.batch.site.get("sge", {}).get("pe", "auto"), pes, spec.batch.text("partition"))
    found = [*_ALWAYS, *([(f"-pe {pe} {shape.total}", layout.why_ranks)] if pe else [])]
    if "ALL" in writing.exported(spec):
        found.append(("-V", str(spec.origins.get("export", "built-in"))))
    return writing.lines(Request(spec, layout, shape, "sge"), found, _STYLE)


def less_memory(said: str, spec: JobSpec) -> str:
    """Return how much memory a host has, if qsub says that none has as much as the job asks for, and else ""."""
    from mnrun.schedulers import offers

    name = str(spec.batch.site.get("sge", {}).get("memory", _MEMORY))
    offered = re.findall(rf"offers only \w\w:{re.escape(name)}=([\d.]+)([KMGT]?)", said)
    asked = [option for option in ("mem", "mem_per_cpu") if option in spec.origins]
    if not offered or not asked:
        return ""
    number, unit = max(offered, key=lambda size: ("KMGT".find(size[1]), float(size[0])))
    return f"a node has at most {number}{unit} of memory ({name}), and {offers.asks(spec, asked)}"


def _name(request: Request) -> str:
    return writing.named(request.spec, TITLE, r"^(?=\d)|[/:@\\*?\s]", "no digit at its begin, and none of / : @ \\ * ?")


def _queues(request: Request) -> str:
    """Return the queues, of these hosts alone if the job names some."""
    queues, hosts = request.text("partition"), request.nodes("nodelist")
    if not hosts:
        return queues
    return ",".join(f"{name}@{host}" for name in (queues or "*").split(",") for host in hosts)


def _licenses(request: Request) -> str:
    licenses = writing.licenses(request)
    if licenses and request.shape.total > 1:
        problem = f"--licenses: Grid Engine counts a resource for each of the {request.shape.total} slots"
        raise Impossible(problem, f"write --sge '-l {licenses[0][0]}=N' with the number for a slot")
    return ",".join(f"{name}={count}" for name, count in licenses)


def _array(request: Request) -> str:
    """Return positions, from 1 on: Grid Engine has neither lists nor a task 0."""
    return f"1-{len(arrays.tasks(text))}" if (text := request.text("array")) else ""


_OPTIONS: tuple[writing.Row, ...] = (
    ("cpus_per_task", "-v", writing.cpus),
    ("job_name", "-N", _name),
    ("partition", "-q", _queues),
    ("exclude", "-l", lambda job: f"hostname=!({'|'.join(hosts)})" if (hosts := job.nodes("exclude")) else ""),
    ("account", "-P", writing.project),
    ("account", "-A", writing.account),
    ("reservation", "-ar", lambda job: job.text("reservation")),
    ("time", "-l", lambda job: f"h_rt={job.seconds}" if job.seconds else ""),
    ("constraint", "-l", lambda job: ",".join(f"{name}=true" for name in writing.features(job, TITLE))),
    ("licenses", "-l", _licenses),
    ("gpus_per_node", "-l", lambda job: writing.gpus(job, "gpu={per_slot}")),
    ("mem", "-l", lambda job: f"{job.site('memory', _MEMORY)}={job.megabytes}M" if job.megabytes else ""),
    ("exclusive", "-l", lambda job: job.site("exclusive", "exclusive=true") if job.text("exclusive") else ""),
    ("array", "-t", _array),
    ("array", "-tc", lambda job: str(job.at_once or "")),
    ("array", "-v", lambda job: arrays.assigned(job.text("array"))),
    ("dependency", "-hold_jid", lambda job: ",".join(writing.awaited(job.spec, TITLE, writing.ENDS, _name(job)))),
    ("dependency", "-v", lambda job: writing.told(job.spec)),
    ("mail_type", "-m", lambda job: writing.mail(job.spec)),
    ("mail_user", "-M", lambda job: job.text("mail_user")),
    ("requeue", "-r", lambda job: ("y" if job.text("requeue") else "n") if "requeue" in job.spec.origins else ""),
    ("export", "-v", lambda job: ",".join(name for name in writing.exported(job.spec) if name != "ALL")),
    ("output", "-o", lambda job: writing.pattern(writing.output(job.spec), _PATTERNS)),
    ("error", "-e", lambda job: writing.pattern(job.text("error"), _PATTERNS)),
    ("error", "-j", lambda job: "" if job.text("error") else "y"),
)
# At its own limit for warnings, s_rt, Grid Engine 8.1.9 kills a job with a PE.
_STYLE = writing.Style("#$", shlex.quote, _OPTIONS, ("-l", "-m", "-v", "-q"), "USR1 USR2")


def suits(pe: Pe, wanted: Shape) -> bool:
    """Return whether a PE gives a job this shape, and mnrun may start something on its hosts."""
    rule = pe.get("allocation_rule", "")
    if wanted.hosts == 1:
        return rule in ("$pe_slots", str(wanted.slots))
    return rule == str(wanted.slots) and reachable(pe)


def reachable(pe: Pe) -> bool:
    """Return whether the jobs of a PE may start something on their other hosts."""
    return pe.get("control_slaves", "").upper() == "TRUE"


def choose(wanted: Shape, setting: str | int | Mapping[str, str], pes: Mapping[str, Pe] | None, queues: str) -> str:
    """Return the PE of a job, or "" if it needs none. `pes` are those of its `queues`, or None if nobody has told.

    `setting` is the site's: "auto", a pattern such as mpi-{per_node}, or PEs by the slots of a node. Raises Impossible.
    """
    if wanted.total == 1:
        return ""
    if isinstance(setting, Mapping):
        setting = setting.get(str(wanted.slots)) or setting.get("*", "auto")
    named = "" if setting == "auto" else str(setting).replace("{per_node}", str(wanted.slots))
    if pes is None:
        return named or f"mpi-{wanted.slots}"
    there = {name: pe for name, pe in sorted(pes.items()) if named in ("", name)}
    # mnrun exec, proxy and serve --beside start something in a job of one host, too.
    found = sorted(
        (not reachable(pe), pe["allocation_rule"] != "$pe_slots", name)
        for name, pe in there.items()
        if suits(pe, wanted)
    )
    if found:
        return found[0][-1]
    size = f"{counted(wanted.slots, 'slot')} on each of {counted(wanted.hosts, 'node')}"
    which = f" {named} (the profile's)" if named else f" of {queues}" if queues else ""
    closed = {True: "", False: ", control_slaves FALSE"}
    seen = (f"{name} ({pe['allocation_rule']}{closed[reachable(pe)]})" for name, pe in there.items())
    raise Impossible(
        f"no PE{which} gives {size}: {', '.join(seen) or 'there is none'}",
        f"an admin adds one: qconf -ap mpi-{wanted.slots}, with allocation_rule {wanted.slots} and control_slaves TRUE,"
        f" and names it in the pe_list of {queues or 'a queue'}",
    )


def refuse_closed(name: str, pe: Pe) -> None:
    """Raise Impossible if mnrun can't start anything on the other hosts of a job with this PE."""
    if not reachable(pe):
        problem = f"the PE {name} lets a job start nothing on its other nodes (control_slaves FALSE)"
        raise Impossible(problem, f"an admin sets it to TRUE (qconf -mp {name}), or ask for another PE: #$ -pe")

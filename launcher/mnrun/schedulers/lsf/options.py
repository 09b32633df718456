"""Write a job in the options of bsub(1), and refuse what LSF has not. Runs no command.

A job of mnrun's has K slots on each of its hosts: `-n` counts them all, and `span[ptile=K]` spreads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mnrun import formats
from mnrun.errors import Impossible
from mnrun.jobspec import JobSpec
from mnrun.model import Layout
from mnrun.schedulers import arrays, common, writing
from mnrun.schedulers.lsf import TITLE
from mnrun.schedulers.vocabulary import JobId
from mnrun.schedulers.writing import Request

_REFUSED = {"mem_per_gpu": "use --mem or --mem-per-cpu"}
_LETTERS = dict(zip("jAa%", ["%J", "%J", "%I", "%"]))  # bsub(1), -o
_WORDS = dict(zip("jAauN%", ["${LSB_JOBID}", "${LSB_JOBID}", "${LSB_JOBINDEX}", "$USER", "$HOSTNAME", "%"]))
_KINDS = {"": "ended", "afterany": "ended", "afterok": "done", "afternotok": "exit", "after": "started"}


def directives(spec: JobSpec, layout: Layout, environ: Mapping[str, str] = {}) -> list[tuple[str, str]]:
    """Return (line of the script, origin) for each option of the job. Raises Impossible for what LSF lacks."""
    writing.refuse_options(spec, TITLE, _REFUSED, "write --lsf '-R rusage[NAME=N]'")
    shape = writing.shape(layout, spec.resources.cpus_per_task or 1, TITLE)
    request = Request(spec, layout, shape, "lsf")
    spread = f"span[ptile={shape.slots}]" if shape.hosts > 1 else "span[hosts=1]"
    found = [(f"-n {shape.total}", layout.why_ranks), (f"-R {_quoted(spread)}", layout.why_ranks)]
    opened = (_redirection(request), "without LSB_STDOUT_DIRECT, LSF writes this file at the end")
    return [*writing.lines(request, found, _STYLE), opened]


def _quoted(text: str) -> str:
    """Return a value as bsub reads it in a script, with quotes around it where it needs them."""
    quote = "'" if '"' in text else '"'
    return text if re.fullmatch(r"[\w./:=@%+-]+", text) else f"{quote}{text}{quote}"


def _redirection(request: Request) -> str:
    """Return the line of the script from which on its output is in the file of -o, to which LSF adds its report."""
    out, error = writing.output(request.spec), request.text("error")
    words = {**_WORDS, "x": _name(request)}
    return f"exec >>{writing.in_bash(out, words)} 2>{f'>{writing.in_bash(error, words)}' if error else '&1'}"


def _name(request: Request) -> str:
    return writing.named(request.spec, TITLE, r"[^\w.:=@#+-]", "letters, digits and . : = @ # + -")


def _named(request: Request) -> str:
    """Return the job's name with the positions of its array, from 1 on: LSF has no task 0."""
    name, text = _name(request), request.text("array")
    most = f"%{request.at_once}" if request.at_once else ""
    return f"{name}[1-{len(arrays.tasks(text))}]{most}" if text else name


def _variables(request: Request) -> str:
    """Return the variables of the job, or "" for all of those here, which is bsub's own default."""
    names = [name.lower() if name == "ALL" else name for name in writing.exported(request.spec)]
    ours = [*filter(None, (writing.cpus(request), arrays.assigned(request.text("array"))))]
    return "" if names == ["all"] and not ours else ", ".join([*names, *ours]) or "none"


def _dependency(request: Request) -> str:
    """Return the condition for bsub -w."""
    text, terms = request.text("dependency"), []
    for kind, of in formats.dependencies(text):
        if kind not in _KINDS or any(JobId.of(job).task or "+" in job for job in of):
            kinds = ", ".join(filter(None, _KINDS))
            raise Impossible(f"--dependency {text}: LSF waits for whole jobs", f"use {kinds}, with ids of jobs")
        terms += [f"{_KINDS[kind]}({job})" for job in of]
    return (" || " if "?" in text else " && ").join(terms)


def _select(request: Request) -> str:
    """Return the condition for hosts, by their features and names."""
    signs = {"&": " && ", ",": " && ", "|": " || "}
    wanted = re.sub("[&,|]", lambda sign: signs[sign[0]], writing.expression(request, TITLE))
    others = [f"hname!='{host}'" for host in request.nodes("exclude")]
    terms = [f"({wanted})" if others and "||" in wanted else wanted] * bool(wanted) + others
    return f"select[{' && '.join(terms)}]" if terms else ""


def _amounts(request: Request) -> str:
    """Return the memory of each host, and the licenses of the job (/host, /job: LSF 10.1.0.9, release notes)."""
    slot = request.megabytes
    known = {"slot": str(slot), "host": str(slot * request.shape.slots)}
    memory = [writing.filled(request.site("memory", "mem={host}MB/host"), known)] * bool(slot)
    amounts = [*memory, *(f"{name}={count}/job" for name, count in writing.licenses(request))]
    return f"rusage[{','.join(amounts)}]" if amounts else ""


def _limit(request: Request) -> str:
    """Return the time limit, H:MM, rounded up: bsub -W has no seconds."""
    minutes = -(-request.seconds // 60)
    return f"{minutes // 60}:{minutes % 60:02}" if minutes else ""


def _mail(request: Request) -> str:
    kinds = {*request.text("mail_type").upper().split(",")}
    return " ".join(["-B"] * bool(kinds & {"BEGIN", "ALL"}) + ["-N"] * bool(kinds & {"END", "FAIL", "ALL"}))


def _file(request: Request, pattern: str) -> str:
    return writing.pattern(pattern, {**_LETTERS, "x": _name(request)})


_OPTIONS: tuple[writing.Row, ...] = (
    ("export", "-env", _variables),
    ("job_name", "-J", _named),
    ("array", "-Jd", lambda job: arrays.assigned(job.text("array"))),
    ("partition", "-q", lambda job: job.text("partition").replace(",", " ")),
    ("nodelist", "-m", lambda job: " ".join(job.nodes("nodelist"))),
    ("constraint", "-R", _select),
    ("account", "-P", lambda job: job.text("account")),
    ("qos", "-sla", lambda job: job.text("qos")),
    ("reservation", "-U", lambda job: job.text("reservation")),
    ("time", "-W", _limit),
    ("gpus_per_node", "-gpu", lambda job: writing.gpus(job, "num={gpus}", "num={gpus}:gmodel={type}")),
    ("mem", "-R", _amounts),
    ("exclusive", "", lambda job: "-x" if job.text("exclusive") else ""),
    ("dependency", "-w", _dependency),
    ("mail_type", "", _mail),
    ("mail_user", "-u", lambda job: job.text("mail_user")),
    ("requeue", "", lambda job: ("-r" if job.text("requeue") else "-rn") if "requeue" in job.spec.origins else ""),
    ("output", "-o", lambda job: _file(job, writing.output(job.spec))),
    ("error", "-e", lambda job: _file(job, job.text("error"))),
)
_STYLE = writing.Style("#BSUB", _quoted, _OPTIONS, ("-R",), "USR2")

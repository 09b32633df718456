"""Write a job in the options of flux batch, and refuse what Flux has not. Runs no command.

Each node is one slot, so that its GPUs need not be a multiple of its ranks. A variable has the number of ranks.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from mnrun import formats
from mnrun.errors import Impossible
from mnrun.jobspec import JobSpec
from mnrun.model import Layout
from mnrun.schedulers import writing
from mnrun.schedulers.flux import RANKS, TITLE
from mnrun.schedulers.writing import Request, Shape

_MEMORY = "leave it out: Flux gives cores and GPUs alone, and --exclusive gives all memory of a node"
_REFUSED = {
    "array": "submit each task: for i in 0 1 2; do mnrun submit -x I=$i …; done",
    **dict.fromkeys(("mem", "mem_per_cpu", "mem_per_gpu"), _MEMORY),
    **dict.fromkeys(("qos", "reservation"), "name a queue with --partition"),
    "licenses": "leave it out",
    **dict.fromkeys(("mail_type", "mail_user"), "use mnrun wait ID, and send a mail after it"),
    "requeue": "leave it out: Flux starts no job again",
}
_PATTERNS = {"x": "{{name}}", "j": "{{id.dec}}", "A": "{{id.dec}}", "N": "{{node.name}}", "%": "%"}
_KINDS = ("after", "afterany", "afterok", "afternotok", "singleton")
_FEW = ("HOME", "LOGNAME", "PATH", "SHELL", "USER")  # variables without which few jobs run


def directives(spec: JobSpec, layout: Layout, environ: Mapping[str, str] = {}) -> list[tuple[str, str]]:
    """Return (line of the script, origin) for each option of the job. Raises Impossible for what Flux lacks."""
    writing.refuse_options(spec, TITLE, _REFUSED, "write --flux requires=PROPERTY")
    shape = Shape(layout.nnodes, max(layout.ranks) * (spec.resources.cpus_per_task or 1))
    why = layout.why_ranks
    first = [(f"--nodes={layout.nnodes}", why), (f"--nslots={layout.nnodes}", "a slot is a node")]
    first += [(f"--cores-per-slot={shape.slots}", why), (f"--env={RANKS}={sum(layout.ranks)}", why)]
    return writing.lines(Request(spec, layout, shape, "flux"), first, _STYLE)


def _name(request: Request) -> str:
    return writing.named(request.spec, TITLE, "^(flux|FLUX)$", "another name than its own")


def _requires(request: Request) -> str:
    """Return the constraint on nodes (RFC 35): properties, hosts, and hosts not to take."""
    features, hosts, others = writing.expression(request, TITLE), request.text("nodelist"), request.text("exclude")
    grouped = f"({features})" if features and (hosts or others) else features
    return " and ".join(filter(None, (grouped, hosts and f"hosts:{hosts}", others and f"not hosts:{others}")))


def _dependencies(request: Request) -> str:
    kinds = writing.dependencies(request.spec, "Flux waits for all of its jobs", _KINDS)
    words = [f"{kind or 'afterany'}:{job}" for kind, jobs in kinds for job in jobs]
    return " ".join(f"--dependency={word}" for word in words + ["singleton"] * (("singleton", ()) in kinds))


def _exported(request: Request) -> str:
    """Return options for these variables alone, or "" for all."""
    names = writing.exported(request.spec)
    return "" if "ALL" in names else shlex.join(["--env-remove=*", *(f"--env={name}" for name in (*_FEW, *names))])


# An option of mnrun's, that of flux batch ("" if the value has it), and its value, or "" for none.
_OPTIONS: tuple[writing.Row, ...] = (
    ("cpus_per_task", "", lambda job: f"--env={cpus}" if (cpus := writing.cpus(job)) else ""),
    ("gpus_per_node", "--gpus-per-slot", lambda job: writing.gpus(job, "{gpus}")),
    ("job_name", "--job-name", _name),
    ("partition", "--queue", lambda job: job.text("partition")),
    ("account", "--bank", lambda job: job.text("account") or job.site("bank", "")),
    ("time", "--time-limit", lambda job: f"{job.seconds}s" if job.seconds else ""),
    ("constraint", "--requires", _requires),
    ("requeue", "", lambda job: "# Flux starts no job again" if "requeue" in job.spec.origins else ""),
    ("exclusive", "", lambda job: "--exclusive" if job.text("exclusive") else ""),
    ("dependency", "", _dependencies),
    ("export", "", _exported),
    ("output", "--output", lambda job: writing.pattern(writing.output(job.spec), _PATTERNS)),
    ("error", "--error", lambda job: writing.pattern(job.text("error"), _PATTERNS)),
)
# Flux 0.88 sends the signal of its own --signal to the brokers, too, and those of other nodes end by it.
_STYLE = writing.Style(
    "#flux:", shlex.quote, _OPTIONS, ("--env", "--dependency"), "HUP USR1 USR2", lambda word: shlex.quote(f"--{word}")
)

"""Parse the answers of scontrol about one job. Runs no command."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from mnrun import nodeset
from mnrun.errors import SchedulerError, UsageError
from mnrun.model import Allocation, Node, Unwell
from mnrun.schedulers.slurm.states import job_state
from mnrun.schedulers.vocabulary import ACTIVE, RUNNING, JobId, JobState, Trace, number

# SLURM_STEP_ID in salloc's shell, in the batch script, and in a step that waits for its nodes (slurm.h)
_NO_STEPS = ("4294967290", "4294967291", "4294967293")


def version(text: str) -> tuple[int, int]:
    """Turn `slurm 24.11.5`, which srun printed, into (24, 11)."""
    match = re.search(r"(?<!\d)(\d{1,4})\.(\d{1,4})", text, re.ASCII)
    if not match:
        raise SchedulerError(f"srun --version says {text.strip()[:200]!r}, which is not a version of Slurm")
    return int(match[1]), int(match[2])


def of_job(job: str, text: str) -> str:
    """Return the job's own line in the output of `scontrol -o show job ID`, or the whole output without such a line.
    Where the id is also an array's, scontrol prints a line for each task that began."""
    return next((line for line in text.split("\n") if line.startswith(f"JobId={job} ")), text)


def unwell(text: str) -> dict[str, Unwell]:
    """Return the nodes that `sinfo -N -o "%N %T"` calls down, failing, draining or silent, which has the mark `*`."""
    states = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    dead = {node: state.endswith("*") or state.startswith(("down", "fail")) for node, state in states.items()}
    return {
        node: Unwell(f"Slurm says {state}", dead[node])
        for node, state in states.items()
        if dead[node] or state.startswith("drain")
    }


def started_anew(text: str, since: float) -> dict[str, Unwell]:
    """Return the nodes that began after `since`, as `scontrol -o show node` says. A node's slurmd counts, too:
    containers share the time at which their kernel began."""
    found = {}
    for line in text.splitlines():
        node = re.match(r"NodeName=(\S+) ", line)
        times = [number(value) for value in re.findall(r"\b(?:BootTime|SlurmdStartTime)=(\d+)\b", line, re.ASCII)]
        if node and times and max(times) >= since:
            found[node[1]] = Unwell(f"started anew at {time.strftime('%H:%M:%S', time.localtime(max(times)))}")
    return found


def trace(job: str, text: str, uid: int) -> Trace | None:
    """Return a job from the output of `scontrol -o show job ID`, or None if it names no job and owner."""
    lines = [_nameless(line) for line in text.split("\n")]
    tasks = [match for line in lines if (match := re.search(r"\bArrayJobId=(\d+) ArrayTaskId=(\d+)\b", line))]
    line = _nameless(of_job(job, text).split("\n")[0])
    state, owner = re.search(r"\bJobState=(\w+)", line), re.search(r"\bUserId=(.*?)\((\d+)\)", line)
    if state is None or owner is None:
        return None
    files = [re.search(rf"\b{name}=(.*?) *(?: [A-Z]\w*=|$)", line) for name in ("StdOut", "StdErr")]
    output, error = (match[1] if match else "" for match in files)
    return Trace(
        active=job_state(state[1]) in ACTIVE,
        output=output,
        error=error if error != output else "",
        owner="" if int(owner[2]) == uid else owner[1],
        tasks=tuple(f"{task[1]}_{task[2]}" for task in tasks) if "_" not in job else (),
    )


def _nameless(text: str) -> str:
    """Return a job's line without its name, which may hold anything."""
    return re.sub(r"JobName=.*?( UserId=\S+\(\d+\) GroupId=)", r"\1", text)


def allocation(text: str, environ: Mapping[str, str], scripted: bool = False) -> Allocation:
    """Return a job from the output of `scontrol show job -d -o ID` and the variables of salloc or sbatch.

    Within `srun --pty bash`, SLURM_NTASKS and its kin are those of the *step*. So scontrol alone counts for nodes, CPUs
    and GPUs. A batch script is no step (`scripted`), though it may have the variables of the one it was handed in from.
    """
    text = text.split("\n")[0]  # of a heterogeneous job, the first component
    text = _nameless(text)
    fields: dict[str, str] = {}
    for name, value in re.findall(r"(\S+?)=(\S*)", text):
        fields.setdefault(name, value)  # a comment may hold anything
    if job_state(fields.get("JobState", "")) not in (*RUNNING, JobState.COMPLETING):
        raise SchedulerError(f"job {fields.get('JobId', '?')} is {fields.get('JobState', 'unknown')}, not running")
    try:
        names = nodeset.expand(fields["NodeList"])
        job = fields["JobId"]
        cpus, gpus = _per_node(text)
    except (KeyError, UsageError) as error:
        raise SchedulerError(f"scontrol's words about the job are not as Slurm writes them: {error}") from None
    if not names:
        raise SchedulerError(f"scontrol names no node of job {job}")
    nodes = tuple(Node(name, cpus.get(name, 1), gpus.get(name, 0)) for name in names)
    tasks = _tasks(environ, scripted, len(nodes))
    parts = _components(environ)
    note = f"job {job} is heterogeneous, and mnrun uses the first of its {parts} components" if parts > 1 else ""
    return Allocation("slurm", job, nodes, *tasks, note=note)


def _per_node(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return CPUs and GPUs by node, from the `Nodes=… CPU_IDs=0-1 Mem=… GRES=gpu:2(IDX:0-1)` groups of -d."""
    cpus: dict[str, int] = {}
    gpus: dict[str, int] = {}
    for names, ids, gres in re.findall(r"\bNodes=(\S+) CPU_IDs=(\S+) Mem=\S+ GRES=(\S*)", text):
        count = sum(number(b or a) - number(a) + 1 for a, b in re.findall(r"(\d+)(?:-(\d+))?", ids))
        granted = sum(number(n) for n in re.findall(r"(?:^|,)gpu(?::[^:(,]+)?:(\d+)", gres))
        for name in nodeset.expand(names):
            cpus[name], gpus[name] = max(count, 1), granted
    return cpus, gpus


def _tasks(environ: Mapping[str, str], scripted: bool, nodes: int) -> tuple[int | None, int | None, int | None]:
    """Return the tasks of the job's request: (in all, at most per node, CPUs of each). Slurm sets the first only on
    request, or where it multiplies the second by the number of nodes."""
    environ = first_component(environ)
    per_node = number(environ.get("SLURM_NTASKS_PER_NODE", "")) or None
    ntasks = cpus = 0
    if scripted or not in_step(environ):
        ntasks, cpus = (number(environ.get(name, "")) for name in ("SLURM_NTASKS", "SLURM_CPUS_PER_TASK"))
    if per_node and ntasks >= per_node * nodes:
        ntasks = 0
    return ntasks or None, per_node, cpus or None


def _components(environ: Mapping[str, str]) -> int:
    return number(environ.get("SLURM_HET_SIZE", ""))


def first_component(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables of a heterogeneous job with the request of its first component alone. In salloc,
    SLURM_NTASKS is the sum of all components, and others are those of any component (seen with 24.11)."""
    if _components(environ) < 2:
        return environ
    names = ("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_CPUS_PER_TASK")
    own = {name: environ.get(f"{name}_HET_GROUP_0", "") for name in names}
    return {**environ, **own}


def in_step(environ: Mapping[str, str]) -> bool:
    """Return whether this process is a task of a step that srun has started."""
    return environ.get("SLURM_STEP_ID", _NO_STEPS[0]) not in _NO_STEPS

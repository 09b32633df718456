"""Slurm 20.11 and later: parse scontrol's answers, and put srun in front of a step.

Every step of ours says everything about itself. srun's environment has nothing of the surrounding job's words about
steps, such as SLURM_NTASKS_PER_NODE and SLURM_CPU_BIND.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mnrun import environment, nodeset
from mnrun.errors import Impossible, SchedulerError, UsageError
from mnrun.model import Allocation, JobSpec, Layout, Listed, Node, Plan, Site, Variable, Where, Words

CLIENT = SIGNALS = LIMITS = NUMBERS = True

# In a plan, a name stands for each value that only the job knows. It begins with a character that nobody types.
MARK = "\x1aMNRUN_"
# For steps that are planned without nodes: all nodes, the first, and a file with each once per rank.
NODES, HEAD, EACH = f"{MARK}NODES", f"{MARK}HEAD", f"{MARK}EACH"
# Ranks, if the nodes have different numbers of them: beyond this, srun dies ("Too many ranges", hostlist.c).
MOST_APART = 256 * 1024

# SIGNALING while Slurm sends the job a signal, RESIZING while it gives nodes back (squeue(1)).
RUNNING = ("RUNNING", "SUSPENDED", "SIGNALING", "RESIZING")


def version(text: str) -> tuple[int, int]:
    """Turn `slurm 24.11.5` into (24, 11)."""
    match = re.search(r"(\d+)\.(\d+)", text)
    if not match:
        raise SchedulerError(f"srun --version says {text.strip()!r}, which is not a version of Slurm")
    return int(match[1]), int(match[2])


def of_job(job: str, text: str) -> str:
    """Return the job's own line in the output of `scontrol -o show job ID`, or the whole output without such a line.
    Where the id is also an array's, scontrol prints a line for each task that began."""
    return next((line for line in text.split("\n") if line.startswith(f"JobId={job} ")), text)


def allocation(text: str, environ: Mapping[str, str]) -> Allocation:
    """Return a job from the output of `scontrol show job -d -o ID` and the variables of salloc or sbatch.

    Within `srun --pty bash`, SLURM_NTASKS and its kin are those of the *step*. So scontrol alone counts for nodes, CPUs
    and GPUs.
    """
    text = text.split("\n")[0]  # of a heterogeneous job, the first component
    text = re.sub(r"JobName=.*?( UserId=\S+\(\d+\) GroupId=)", r"\1", text)  # a name may hold anything
    fields: dict[str, str] = {}
    for name, value in re.findall(r"(\S+?)=(\S*)", text):
        fields.setdefault(name, value)  # a comment may hold anything
    if fields.get("JobState") not in (*RUNNING, "COMPLETING"):
        raise SchedulerError(f"job {fields.get('JobId', '?')} is {fields.get('JobState', 'unknown')}, not running")
    names = nodeset.expand(fields["NodeList"])
    cpus, gpus = _per_node(text)
    nodes = tuple(Node(name, cpus.get(name, 1), gpus.get(name, 0)) for name in names)
    ntasks, per_node = _tasks_asked(fields, environ)
    return Allocation("slurm", fields["JobId"], nodes, ntasks, per_node)


def _per_node(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return CPUs and GPUs by node, from the `Nodes=… CPU_IDs=0-1 Mem=… GRES=gpu:2(IDX:0-1)` groups of -d."""
    cpus: dict[str, int] = {}
    gpus: dict[str, int] = {}
    for names, ids, gres in re.findall(r"\bNodes=(\S+) CPU_IDs=(\S+) Mem=\S+ GRES=(\S*)", text):
        count = sum(int(b or a) - int(a) + 1 for a, b in re.findall(r"(\d+)(?:-(\d+))?", ids))
        granted = sum(int(n) for n in re.findall(r"(?:^|,)gpu(?::[^:(,]+)?:(\d+)", gres))
        for name in nodeset.expand(names):
            cpus[name], gpus[name] = count, granted
    return cpus, gpus


def _tasks_asked(fields: Mapping[str, str], environ: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the tasks that the job asked for: (in all, per node). Slurm sets the first only on request."""
    per_node = environ.get("SLURM_NTASKS_PER_NODE", "")
    if per_node.isdecimal():
        return None, int(per_node)
    inside_step = "SLURM_STEP_ID" in environ and environ.get("SLURM_STEP_ID") not in (
        "4294967290",
        "4294967291",
        "4294967293",
    )
    ntasks = environ.get("SLURM_NTASKS", "")
    if ntasks.isdecimal() and not inside_step:
        return int(ntasks), None
    return None, None


def reach(where: Where, plan: Plan, site: Site) -> Words:
    """Return `srun …` for a step: on the head, once on every node, or once per rank."""
    spec = plan.spec
    words: list[str] = ["srun", "--quiet"]
    if site.slurm >= (20, 11):
        words.append("--overlap")
    words += _shape(where, plan, site)
    words += ["--mem=0", *_cpu_bind(spec, where, site)]
    bind = spec.gpu_bind if where is Where.RANKS else ""
    if bind or site.slurm >= (21, 8):
        words.append(f"--gpu-bind={bind or 'none'}")
    words.append(f"--mpi={spec.mpi if where is Where.RANKS else 'none'}")
    words += [_input(where, spec), "--export=ALL", "--chdir=/tmp"]
    if where is not Where.RANKS:
        return (*words, "--kill-on-bad-exit=0", "--wait=0")
    words += ["--kill-on-bad-exit=1", "--wait=60"]
    words += [f"--cpus-per-task={spec.cpus_per_task}"] if spec.cpus_per_task else []
    words += ["--overcommit"] if site.overcommit else []
    return (*words, *spec.mpi_args)


def on_paper(site: Site, spec: JobSpec, layout: Layout) -> Site:
    """Return the site of a job that nobody holds yet, with the GPUs that its steps will find on each node.

    Raises Impossible if the GPUs cannot be known in advance.
    """
    each = spec.gpus_per_task
    if each and len(set(layout.ranks)) > 1:
        raise Impossible("--gpus-per-task with different numbers of ranks on its nodes", "use --gpus-per-node")
    return replace(site, gpus={NODES: int(each.rpartition(":")[2]) * layout.ranks[0]} if each else {})


def once_each(names: Sequence[str], gpus: int) -> Words:
    """Return `srun …` for a short command, once on each of these nodes, with the job's GPUs there."""
    shape = _tasks(list(names), [1] * len(names))
    granted = [f"--gres=gpu:{gpus}"] if gpus else []
    return (
        "srun",
        "--quiet",
        "--overlap",
        *shape,
        *granted,
        "--mem=0",
        "--cpu-bind=none",
        "--mpi=none",
        "--chdir=/tmp",
    )


def _input(where: Where, spec: JobSpec) -> str:
    if where is Where.HEAD and spec.shell == "terminal":
        return "--pty"  # srun refuses all other options for input or output beside it
    return "--input=all" if where is Where.ALL else "--input=0"


def _shape(where: Where, plan: Plan, site: Site) -> list[str]:
    """Return srun's options for nodes, for tasks on each, and for their GPUs.

    Nodes go by name: --relative was seen to give another node than the first.
    """
    names = list(plan.layout.nodes) or [NODES] * plan.layout.nnodes
    ranks = list(plan.layout.ranks)
    gpus = [0 if plan.spec.no_gpu else site.gpus.get(name, 0) for name in names]
    if where is Where.HEAD:
        return [*_tasks([HEAD if names[0] == NODES else names[0]], [1]), *_gpus(plan.spec, gpus[:1])]
    if where is Where.RANKS:
        each = ["--gpus-per-task=1"] if len(set(gpus)) > 1 and ranks == gpus and not _asked(plan.spec) else []
        return [*_tasks(names, ranks), *_gpus(plan.spec, gpus), *each]
    if len(set(gpus)) > 1 and not _asked(plan.spec):
        # A step has the same number of GPUs on each node, or for each task. So each node gets a task for each GPU, and
        # all but one leave at once (kit.BOOT).
        return [*_tasks(names, [max(count, 1) for count in gpus]), "--gpus-per-task=1", "--overcommit"]
    return [*_tasks(names, [1] * len(names)), *_gpus(plan.spec, gpus)]


def _tasks(names: list[str], counts: list[int]) -> list[str]:
    words = [f"--nodes={len(names)}", f"--ntasks={sum(counts)}"]
    if len(set(counts)) == 1:
        return [*words, f"--ntasks-per-node={counts[0]}", f"--nodelist={nodeset.fold(names)}"]
    if sum(counts) > MOST_APART:
        what = f"srun cannot start {sum(counts)} ranks if nodes have different numbers of them"
        raise Impossible(what, "ask for the same number on each node, or use --mode inside-out")
    # srun refuses this list together with --nodes: the list says how many.
    each = f"--nodelist={EACH}" if names[0] == NODES else _each(names, counts)
    return [words[1], "--distribution=arbitrary", each]


def _each(names: list[str], counts: list[int]) -> Listed:
    """Return every node once for each of its tasks, as a file that srun reads. srun makes room for its list by what
    it reads. Without commas in the file, the commas of the list would have no room."""
    groups = itertools.groupby(zip(names, counts), key=lambda pair: pair[1])
    shown = ",".join(f"{nodeset.fold(name for name, _ in group)}*{count}" for count, group in groups)
    return Listed("--nodelist=", shown, "".join(f"{name},\n" * count for name, count in zip(names, counts)))


def _asked(spec: JobSpec) -> str:
    return f"gpu:{spec.gpus_per_node}" if spec.gpus_per_node else spec.gres


def _gpus(spec: JobSpec, granted: list[int]) -> list[str]:
    """Return the option for the GPUs that the user asked for, else for all that the job holds. In a job with
    --gpus-per-task, a step would otherwise get one GPU for each of its tasks."""
    if _asked(spec):
        return [f"--gres={_asked(spec)}"]
    if spec.no_gpu:
        return ["--gres=none"]  # without it, a step has all of the job's
    if granted[0] and len(set(granted)) == 1:
        return [f"--gres=gpu:{granted[0]}"]
    return []


def _cpu_bind(spec: JobSpec, where: Where, site: Site) -> list[str]:
    """Return no option if Slurm binds nothing and nobody asks: up to 23.11, srun complains of the option itself."""
    bind = spec.bind_to if where is Where.RANKS else ""
    named = {"": "none", "core": "cores", "socket": "sockets", "hwthread": "threads"}.get(bind, bind)
    return [f"--cpu-bind={named}"] if site.binds or named != "none" else []


# The order of the directives. A key is sbatch's own long option with _ (sbatch(1)).
_DIRECTIVES = (
    *("job_name", "partition", "account", "qos", "reservation", "constraint", "licenses", "nodelist", "exclude"),
    *(
        "exclusive",
        "nodes",
        "ntasks",
        "ntasks_per_node",
        "cpus_per_task",
        "gres",
        "gpus_per_node",
        "gpus",
        "gpus_per_task",
    ),
    *("mem", "mem_per_cpu", "mem_per_gpu", "time", "output", "error", "mail_type", "mail_user"),
    *("dependency", "array", "signal", "requeue", "export"),
)
OUTPUT = "%x-%j.out"  # the job's output, by default
# ulimit(1)'s letters for the names of limits.conf(5)
ULIMITS = {"memlock": "l", "stack": "s", "nofile": "n", "core": "c", "nproc": "u", "data": "d", "as": "v", "cpu": "t"}


def job_name(spec: JobSpec) -> str:
    """Return the job's name: the one asked for, else that of its program."""
    words = (spec.script,) if spec.script else spec.command
    return spec.job_name or words[0].rpartition("/")[2] or "mnrun"


def directives(spec: JobSpec, layout: Layout) -> list[tuple[str, str]]:
    """Return (`--option=value` of sbatch, origin) of each directive. The user's own --slurm words come last."""
    even = len(set(layout.ranks)) == 1
    chosen = {
        "job_name": (job_name(spec), "the program's name"),
        "nodes": (str(layout.nnodes), layout.why_nodes),
        "ntasks": ("" if even and not spec.ntasks else str(layout.ntasks), layout.why_ranks),
        "ntasks_per_node": (str(layout.ranks[0]) if even else "", layout.why_ranks),
        "output": (spec.output or OUTPUT, "built-in"),
        "signal": (_by_the_script(spec.signal), ""),
    }
    found = []
    for name in _DIRECTIVES:
        value, why = chosen.get(name) or (getattr(spec, name), "")
        _refuse_lines(name, str(value), spec.origins.get(name) or why)
        if name == "requeue" and value is False and name in spec.origins:
            found.append(("--no-requeue", spec.origins[name]))  # a site may requeue every job (JobRequeue)
        if value not in ("", None, False):
            text = f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
            found.append((shlex.quote(text), spec.origins.get(name) or why))
    return [*found, *((shlex.quote(f"--{word}"), spec.word_origins["slurm", word]) for word in spec.slurm)]


def _refuse_lines(name: str, value: str, origin: str) -> None:
    """Raise if a value is more than its own line of the script: bash would run the rest of it."""
    if re.search(r"[\x00-\x1f\x7f]", value):
        what = f"--{name.replace('_', '-')} {value!r} contains a tab, a newline or another control character ({origin})"
        raise UsageError(what, "name the job with --job-name" if name == "job_name" else "")


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


def refusal(said: str, spec: JobSpec) -> SchedulerError:
    """Return sbatch's own words as an error, with the given options that they may be about."""
    about = {name for words, names in _REFUSALS.items() if words in said.lower() for name in names}
    given = [name for name in spec.origins if name in about and spec.origins[name] != "built-in"]
    options = [f"--{name.replace('_', '-')} ({spec.origins[name]})" for name in given]
    return SchedulerError(" | ".join(said.splitlines()), f"see {' and '.join(options)}" if options else "")


def launch_environment(plan: Plan, site: Site) -> tuple[Variable, ...]:
    """Return the variables by which the host's Open MPI starts its daemons with srun, for this launch alone. Without
    them, mpirun takes all nodes of the job, or falls back to ssh between the hosts."""
    nodes = nodeset.fold(plan.layout.nodes)
    # mpirun starts its daemons there. layout.py has refused different numbers of GPUs.
    daemons = [site.gpus.get(name, 0) for name in plan.layout.nodes[1:] or plan.layout.nodes]
    gres = [word.partition("=")[2] for word in _gpus(plan.spec, daemons)]
    values = {
        "SLURM_JOBID": site.job,
        "SLURM_JOB_ID": site.job,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NNODES": str(plan.layout.nnodes),
        "SLURM_JOB_NUM_NODES": str(plan.layout.nnodes),
        "SLURM_NTASKS": str(plan.layout.ntasks),
        "SLURM_NPROCS": str(plan.layout.ntasks),
        "SLURM_TASKS_PER_NODE": tasks_per_node(plan.layout.ranks),
        # Inputs of srun: PRRTE 3.0 does not take its plm_slurm_args from the environment.
        "SLURM_OVERLAP": "1",
        "SLURM_MEM_PER_NODE": "0",
        "PRTE_MCA_plm_slurm_args": site.plm_slurm_args,
        "OMPI_MCA_plm_slurm_args": site.plm_slurm_args,
    }
    if gres and gres[0].startswith("gpu:"):
        # The daemons' step gets the GPUs of our own. Slurm refuses SLURM_STEP_GRES ("Invalid TRES specification").
        values["SLURM_GPUS_PER_NODE"] = gres[0][len("gpu:") :]
    gone = (Variable(name, None) for name in _SHAPERS if name not in values)
    return (*(Variable(name, value) for name, value in values.items()), *gone)


# Variables of the head's own step, which would shape the step of mpirun's daemons.
_SHAPERS = (
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_CPU_BIND",
    "SLURM_DISTRIBUTION",
    "SLURM_GPU_BIND",
    "SLURM_TRES_BIND",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_CPUS_PER_GPU",
    "SLURM_GRES",
    "SLURM_GPUS_PER_TASK",
    "SLURM_TRES_PER_TASK",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
)


def tasks_per_node(ranks: tuple[int, ...]) -> str:
    """Turn (2, 2, 2, 1) into `2(x3),1`, the format of SLURM_TASKS_PER_NODE."""
    groups: list[list[int]] = []
    for count in ranks:
        if groups and groups[-1][0] == count:
            groups[-1][1] += 1
        else:
            groups.append([count, 1])
    return ",".join(str(count) if times == 1 else f"{count}(x{times})" for count, times in groups)


def client_environment(environ: Mapping[str, str], plan: Plan) -> dict[str, str]:
    """Return the environment of srun for our steps."""
    clean = environment.for_srun(environ)
    for variable in for_clients(plan):
        clean.setdefault(variable.name, variable.value or "")
    return clean


def for_clients(plan: Plan) -> tuple[Variable, ...]:
    """Return the variables that srun needs for our steps, if its environment does not set them."""
    if plan.starter == "srun" and plan.spec.mpi != "pmi2":
        # Open MPI 5.0.7 under pmix sometimes dies in MPI_Init: a rank that is ahead sends before a late one is ready.
        # With the ring fence, 0 of 115 starts failed, and without it 4 to 16 %.
        why = "with Slurm's default fence, some starts of Open MPI fail"
        return (Variable("SLURM_PMIX_FENCE", "ring", why=why),)
    return ()

"""Slurm 20.11 and later: put srun in front of a step.

Every step of ours says everything about itself. srun's environment has nothing of the surrounding job's words about
steps, such as SLURM_NTASKS_PER_NODE and SLURM_CPU_BIND.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mnrun import nodeset
from mnrun.errors import Impossible
from mnrun.jobspec import JobSpec, Variable, gpu_count, split_gres
from mnrun.model import MARK, NODES, Command, Layout, Listed, Plan, Site, Step, Where, Words
from mnrun.schedulers.slurm.details import details
from mnrun.schedulers.slurm.variables import for_srun, tasks_per_node
from mnrun.schedulers.vocabulary import StepPlace

# For steps that are planned without nodes: the first of all nodes, and a file with each once per rank.
HEAD, EACH = f"{MARK}HEAD", f"{MARK}EACH"
# An empty element of PATH or LD_LIBRARY_PATH means the working directory (bash(1), ld.so(8)). So a step begins where
# only root can write.
AT_ROOT = "--chdir=/"
# Ranks, if the nodes have different numbers of them: beyond this, srun dies ("Too many ranges", hostlist.c).
MOST_LISTED = 256 * 1024


def command(step: Step, plan: Plan, site: Site) -> Command:
    return Command((*srun(step.where, plan, site), *step.argv))


def srun(where: Where, plan: Plan, site: Site) -> Words:
    """Return `srun …` for a step: on the head, once on every node, or once per rank."""
    spec = plan.spec
    words: list[str] = ["srun", "--quiet"]
    if details(site).version >= (20, 11):
        words.append("--overlap")
    words += _shape(where, plan, site)
    words += ["--mem=0", *_cpu_bind(spec, where, site)]
    bind = spec.resources.gpu_bind if where is Where.RANKS else ""
    if bind or details(site).version >= (21, 8):
        words.append(f"--gpu-bind={bind or 'none'}")
    words.append(f"--mpi={spec.start.mpi if where is Where.RANKS else 'none'}")
    # A rank that ends well never ends the others, however long they need. One that fails ends them.
    kill = f"--kill-on-bad-exit={int(where is Where.RANKS)}"
    words += [_input(where, spec), "--export=ALL", AT_ROOT, kill, "--wait=0"]
    if where is not Where.RANKS:
        return tuple(words)
    words += [f"--cpus-per-task={spec.resources.cpus_per_task}"] if spec.resources.cpus_per_task else []
    words += ["--overcommit"] if plan.layout.overcommit else []
    return (*words, *spec.start.mpi_args)


def with_gpus(site: Site, spec: JobSpec, layout: Layout) -> Site:
    """Return the site of a plan without nodes, with the GPUs that its steps will find on each node. Raises Impossible
    if the GPUs cannot be known in advance."""
    each = spec.resources.gpus_per_task
    if each and len(set(layout.ranks)) > 1:
        raise Impossible("--gpus-per-task with different numbers of ranks on its nodes", "use --gpus-per-node")
    return site._replace(gpus={NODES: gpu_count(each) * layout.ranks[0]} if each else {})


def once_each(names: Sequence[str], gpus: int) -> Words:
    """Return `srun …` for a short command, once on each of these nodes, with the job's GPUs there."""
    return ("srun", "--quiet", "--overlap", *_once(names, gpus), "--cpu-bind=none", "--mpi=none", AT_ROOT)


def _once(names: Sequence[str], gpus: int) -> Words:
    granted = [f"--gres=gpu:{gpus}"] if gpus else []
    return (*_tasks(list(names), [1] * len(names)), *granted, "--mem=0")


def beside(place: StepPlace, words: Words) -> list[Command]:
    client = ("srun", "--quiet", f"--jobid={place.job}", "--overlap", "--quit-on-interrupt")
    unbound = ("--cpu-bind=none",) if place.binds else ()  # _cpu_bind
    # Without it, the step's daemon keeps what has no end of a line (seen, 24.11). With it, the output is a pseudo
    # terminal that changes no byte.
    kind = ("--pty",) if place.terminal else () if place.whole_lines else ("--unbuffered",)
    return [Command((*client, *_once(place.nodes, place.gpus), *unbound, "--mpi=none", AT_ROOT, *kind, *words))]


def copying(source: str, target: str, step: str) -> Words:
    # Up to 24.11, sbcast has no --nodelist (sbcast --help).
    return ("sbcast", "--force", f"--jobid={step}", source, target)


def _input(where: Where, spec: JobSpec) -> str:
    if where is Where.HEAD and spec.program.prompt == "terminal":
        return "--pty"  # srun refuses all other options for input or output beside it
    return "--input=all" if where is Where.ALL else "--input=0"


def _shape(where: Where, plan: Plan, site: Site) -> list[str]:
    """Return srun's options for nodes, for tasks on each, and for their GPUs. Nodes go by name: --relative was seen to
    give another node than the first."""
    names = list(plan.layout.nodes) or [NODES] * plan.layout.nnodes
    ranks = list(plan.layout.ranks)
    gpus = [0 if plan.spec.resources.no_gpu else site.gpus.get(name, 0) for name in names]
    if where is Where.HEAD:
        return [*_tasks([HEAD if names[0] == NODES else names[0]], [1]), *_gres(plan.spec, gpus[:1])]
    if where is Where.RANKS:
        each = ["--gpus-per-task=1"] if len(set(gpus)) > 1 and ranks == gpus and not _gpu_request(plan.spec) else []
        return [*_tasks(names, ranks), *_gres(plan.spec, gpus), *each]
    if len(set(gpus)) > 1 and not _gpu_request(plan.spec):
        # A step has the same number of GPUs on each node, or for each task. So each node gets a task for each GPU, and
        # all but one leave at once (kit.BOOT).
        return [*_tasks(names, [max(count, 1) for count in gpus]), "--gpus-per-task=1", "--overcommit"]
    return [*_tasks(names, [1] * len(names)), *_gres(plan.spec, gpus)]


def _tasks(names: list[str], counts: list[int]) -> list[str]:
    words = [f"--nodes={len(names)}", f"--ntasks={sum(counts)}"]
    if len(set(counts)) == 1:  # brackets stand at the end of a name (slurm.conf(5), NodeName)
        return [*words, f"--ntasks-per-node={counts[0]}", f"--nodelist={nodeset.fold_ends(names)}"]
    if sum(counts) > MOST_LISTED:
        problem = f"srun cannot start {sum(counts)} ranks if nodes have different numbers of them"
        raise Impossible(problem, "ask for the same number on each node, or use --mode inside-out")
    # srun refuses this list together with --nodes: the list says how many.
    each = f"--nodelist={EACH}" if names[0] == NODES else _each(names, counts)
    return [words[1], "--distribution=arbitrary", each]


def _each(names: list[str], counts: list[int]) -> Listed:
    """Return every node once for each of its tasks, as a file that srun reads. srun allocates as many bytes as the file
    has, and then joins the names with commas. So the file has commas, too."""
    groups = itertools.groupby(zip(names, counts), key=lambda pair: pair[1])
    shown = ",".join(f"{nodeset.fold(name for name, _ in group)}*{count}" for count, group in groups)
    return Listed("--nodelist=", shown, "".join(f"{name},\n" * count for name, count in zip(names, counts)))


def _gpu_request(spec: JobSpec) -> str:
    want = spec.resources
    each = [f"gpu:{item}" for item in want.gpus_per_node.split(",") if item]
    return ",".join(each) or split_gres(want.gres)[0]


def _step_gpus(spec: JobSpec, granted: list[int]) -> str:
    """Return the GPUs that the user asked for, else all that the job holds on each node, in the words of --gres."""
    if _gpu_request(spec) or spec.resources.no_gpu:
        return _gpu_request(spec)
    return f"gpu:{granted[0]}" if any(granted) and len(set(granted)) == 1 else ""


def _gres(spec: JobSpec, granted: list[int]) -> list[str]:
    """Return the option for a step's GPUs and other resources. In a job with --gpus-per-task, a step would otherwise
    get one GPU for each of its tasks."""
    gpus, others = _step_gpus(spec, granted), split_gres(spec.resources.gres)[1]
    if spec.resources.no_gpu and not others:
        return ["--gres=none"]  # without it, a step has all of the job's
    if not gpus and any(granted) and not spec.resources.no_gpu:
        return []  # the numbers differ. A step with other resources alone would get no GPU
    words = ",".join(filter(None, (gpus, others)))
    return [f"--gres={words}"] if words else []


def _cpu_bind(spec: JobSpec, where: Where, site: Site) -> list[str]:
    """Return no option if Slurm binds nothing and nobody asks: up to 23.11, srun complains of the option itself."""
    bind = spec.start.bind_to if where is Where.RANKS else ""
    value = {"": "none", "core": "cores", "socket": "sockets", "hwthread": "threads"}.get(bind, bind)
    return [f"--cpu-bind={value}"] if site.binds or value != "none" else []


def launch_environment(plan: Plan, site: Site) -> tuple[Variable, ...]:
    """Return the variables by which the host's Open MPI starts its daemons with srun, for this launch alone. Without
    them, mpirun takes all nodes of the job, or falls back to ssh between the hosts."""
    nodes = nodeset.fold_ends(plan.layout.nodes)
    # mpirun starts its daemons there. layout.py has refused different numbers of GPUs.
    daemons = [site.gpus.get(name, 0) for name in plan.layout.nodes[1:] or plan.layout.nodes]
    gpus = _step_gpus(plan.spec, daemons)
    values = {
        **dict.fromkeys(("SLURM_JOBID", "SLURM_JOB_ID"), site.job),
        **dict.fromkeys(("SLURM_NODELIST", "SLURM_JOB_NODELIST"), nodes),
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), str(plan.layout.nnodes)),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), str(plan.layout.ntasks)),
        "SLURM_TASKS_PER_NODE": tasks_per_node(plan.layout.ranks),
        # Inputs of srun: PRRTE 3.0 does not take its plm_slurm_args from the environment.
        "SLURM_OVERLAP": "1",
        "SLURM_MEM_PER_NODE": "0",
        **dict.fromkeys(("PRTE_MCA_plm_slurm_args", "OMPI_MCA_plm_slurm_args"), details(site).plm_slurm_args),
    }
    if gpus:
        # The daemons' step gets the GPUs of our own. Slurm refuses SLURM_STEP_GRES ("Invalid TRES specification").
        items = (re.sub("^(gres/)?gpu:?", "", item) for item in gpus.split(","))
        values["SLURM_GPUS_PER_NODE"] = ",".join(item or "1" for item in items)
    gone = (Variable(name, None) for name in _SHAPERS if name not in values)
    return (*(Variable(name, value) for name, value in values.items()), *gone)


# Variables of the head's own step, which would shape the step of mpirun's daemons.
_SHAPERS = (
    *("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_NTASKS_PER_NODE", "SLURM_CPUS_PER_TASK", "SLURM_CPU_BIND"),
    *("SLURM_DISTRIBUTION", "SLURM_GPU_BIND", "SLURM_TRES_BIND", "SLURM_GPUS", "SLURM_GPUS_PER_NODE"),
    *("SLURM_GPUS_PER_SOCKET", "SLURM_CPUS_PER_GPU", "SLURM_GRES", "SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK"),
    *("SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU"),
)


def client_environment(environ: Mapping[str, str], plan: Plan | None = None) -> dict[str, str]:
    """Return the environment of srun for our steps, or for another command of ours."""
    return {**{v.name: v.value or "" for v in (for_clients(plan) if plan else ())}, **for_srun(environ)}


def for_clients(plan: Plan) -> tuple[Variable, ...]:
    """Return the variables that srun needs for our steps, if its environment does not set them."""
    if plan.starter == "srun" and plan.spec.start.mpi != "pmi2":
        # Open MPI 5.0.7 under pmix sometimes dies in MPI_Init: a rank that is ahead sends before a late one is ready.
        # With the ring fence, 0 of 115 starts failed, and without it 4 to 16 %.
        why = "with Slurm's default fence, some starts of Open MPI fail"
        return (Variable("SLURM_PMIX_FENCE", "ring", why=why),)
    return ()

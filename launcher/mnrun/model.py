"""The nouns of a launch. All frozen, all data: nothing here acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

Words = tuple[str, ...]


class Listed(str):
    """A word `OPTION=LIST` with a list that may be longer than Linux lets a word be (128 kB): who starts the command
    puts `text` into a file of its own, and that file's name after the option. As it stands it is for people."""

    option: str
    text: str

    def __new__(cls, option: str, shown: str, text: str) -> Listed:
        made = super().__new__(cls, option + shown)
        made.option, made.text = option, text
        return made


class Phase(Enum):
    """When a step runs. STOP happens whatever happened before."""

    PREPARE = "prepare"
    SERVE = "serve"
    AWAIT = "await"
    RUN = "run"
    STOP = "stop"


class Where(Enum):
    """On which nodes a step runs, and how often."""

    HEAD = "head"  # once, on the first node
    ALL = "all"  # once on every node
    RANKS = "ranks"  # once per rank, started by the scheduler
    HERE = "here"  # in the launcher itself


@dataclass(frozen=True)
class Mount:
    """`source[:target[:options]]`, as Apptainer and Docker spell it."""

    source: str
    target: str = ""
    options: str = ""

    def __str__(self) -> str:
        target = self.target or self.source
        return ":".join(filter(None, (self.source, target, self.options)))


@dataclass(frozen=True)
class Variable:
    """One variable of the job. `value` None takes it away; an `inherited` one has the value that
    it has where the job starts, which is written down nowhere."""

    name: str
    value: str | None
    inherited: bool = field(default=False, compare=False)
    why: str = field(default="", compare=False)


@dataclass(frozen=True)
class Asked:
    """A host that was named, and the ranks that it takes if that was said."""

    name: str
    slots: int | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.slots}" if self.slots is not None else self.name


@dataclass(frozen=True)
class JobSpec:
    """What was asked for, checked and typed; nothing about any cluster yet."""

    command: Words = ()
    script: str = ""  # run once in the master container instead of `command`
    once: bool = False  # the command starts its own ranks: mpirun ./app
    shell: str = ""  # or a shell instead: "terminal" is a prompt on ours, "input" reads commands from standard input
    mode: str = "inside-out"
    image: str = ""  # an absolute path, or what the runtime calls an image of a registry
    pull: str = "missing"
    pull_timeout: int = 1800  # seconds, of PREPARE
    image_cache: str = ""  # where images of registries become files
    runtime: str = "apptainer"
    container_args: Words = ()
    container_per: str = "auto"
    privileged: bool = False
    hardened: bool = False
    podman_root: str = ""  # on the nodes
    binds: tuple[Mount, ...] = ()
    home: str = ""  # "" when it is not to be mounted
    chdir: str = "/"
    umask: str = "0022"
    env: tuple[Variable, ...] = ()  # of every rank
    passed: Words = ()  # the names in it that -x and --env-file brought
    asked_env: tuple[Variable, ...] = ()  # of -x alone, as they were asked for
    env_files: Words = ()
    launcher: str = "auto"
    mpi: str = "auto"
    left: Words = ()  # which of mode, launcher and mpi are left to us
    mpi_args: Words = ()
    bind_to: str = ""
    connect: str = "auto"  # ssh where every node has it, else pipe
    nodes: int | None = None
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gres: str = ""
    gpus_per_node: str = ""
    gpus: str = ""  # in all
    gpus_per_task: str = ""
    no_gpu: bool = False
    gpu_bind: str = ""
    require: str = "any"  # by what ranks must talk to those on other nodes: ib, tcp
    nv: bool = False  # in any case, where a node has the driver
    nodelist: str = ""
    exclude: str = ""
    # what a batch job is asked for, in sbatch's words
    job_name: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    constraint: str = ""
    licenses: str = ""
    exclusive: bool = False
    mem: str = ""
    mem_per_cpu: str = ""
    mem_per_gpu: str = ""
    time: str = ""
    output: str = ""
    error: str = ""
    split_output: str = ""
    label: bool = False
    mail_type: str = ""
    mail_user: str = ""
    dependency: str = ""
    array: str = ""
    signal: str = ""
    requeue: bool = False
    export: str = ""
    slurm: Words = ()
    module: Words = ()
    setup: Words = ()
    ulimit: Words = ()
    local: bool = False
    hosts: tuple[Asked, ...] = ()  # those that no scheduler gives
    hostfile: str = ""  # where they were named
    ssh_user: str = ""
    ssh_port: int | None = None
    rsh: str = "auto"
    stage: bool = False
    ports: str = "20000-29999"
    fabric: str = "auto"
    start_timeout: int = 120  # seconds, from the first container start to ready
    keep: bool = False
    force: bool = False
    job_dir: str = ""
    job_file: str = ""  # as it was named
    profile: str = ""
    as_given: bool = False  # by the batch script that mnrun submit wrote: nothing but its own words counts
    mnrun: str = ""  # the command that the batch script calls
    slurm_poll: int = 30  # seconds between two questions to Slurm, at least
    templates: str = ""  # a directory that goes before ours
    quiet: bool = False
    verbose: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)  # option -> where it came from
    setup_origins: Words = field(default=(), compare=False)  # of each line in `setup`
    word_origins: Mapping[tuple[str, str], str] = field(default_factory=dict, compare=False)  # (option, a word of it)

    def own(self, option: str) -> bool:
        """Whether this very job asks for it; what a site says of every job is no mistake in one."""
        own = (f"{self.job_file} line", "MNRUN_") if self.job_file else ("MNRUN_",)
        return any(part == "command line" or part.startswith(own) for part in self.origins.get(option, "").split(", "))

    @property
    def by_reference(self) -> bool:
        """Whether the image is a registry's, and to be had before anything starts."""
        return bool(self.image) and not self.image.startswith("/")


@dataclass(frozen=True)
class Node:
    """What a job holds on one node: CPUs, GPUs, and the ranks it takes where that was said of it."""

    name: str
    cpus: int = 1
    gpus: int = 0
    slots: int | None = None


@dataclass(frozen=True)
class Allocation:
    """The nodes that we hold, in the scheduler's own order."""

    scheduler: str
    job: str
    nodes: tuple[Node, ...]
    ntasks: int | None = None  # what the job itself asked for, None if it did not
    ntasks_per_node: int | None = None
    given_back: Mapping[str, str] = field(default_factory=dict)  # job variables for the ranks


@dataclass(frozen=True)
class Worker:
    """One node's readiness record: what it said of itself in its `ready` line."""

    name: str  # the scheduler's name of the node
    host: str  # its own host name
    address: str  # where the others reach it, "" if its name is all there is
    port: int = 0  # its sshd's, 0 where there is none
    step: str = ""  # the scheduler's id of the serving step
    user: str = ""  # who we are there
    image: str = ""  # of its image file: SIZE.SUM, the sum of its header; or directory


@dataclass(frozen=True)
class Layout:
    """How many ranks go where: the one answer that every starter is given."""

    nodes: tuple[str, ...]  # names, or empty while nobody holds nodes yet
    ranks: tuple[int, ...]  # per node, in the same order
    why_ranks: str = ""
    why_nodes: str = ""

    @cached_property
    def ntasks(self) -> int:
        return sum(self.ranks)

    @property
    def nnodes(self) -> int:
        return len(self.ranks)


@dataclass(frozen=True)
class Site:
    """What of this cluster shapes the steps' words."""

    scheduler: str
    job: str  # the scheduler's id of the job that we are in
    slurm: tuple[int, int] = (0, 0)  # its version
    plm_slurm_args: str = ""  # what this Slurm tells Open MPI to say to srun
    gpus: Mapping[str, int] = field(default_factory=dict)  # node -> how many of its GPUs the job holds
    binds: bool = True  # this Slurm binds tasks to CPUs
    overcommit: bool = False  # more ranks than the job has CPUs
    restart: int = 0  # how often the scheduler has started the job before
    inside: bool = False  # we are a process of the job, which ends no sooner than we do


@dataclass(frozen=True)
class Box:
    """A container as every runtime understands it."""

    image: str
    binds: tuple[Mount, ...]
    home: str
    chdir: str
    args: Words = ()
    job: str = ""  # our id of the launch
    privileged: bool = False
    hardened: bool = False


@dataclass(frozen=True)
class Step:
    """One thing that happens: the same words whoever carries them out, no node names in them."""

    phase: Phase
    where: Where
    argv: Words
    why: str
    background: bool = False


@dataclass(frozen=True)
class Plan:
    """Everything that a launch does, before anything is done."""

    spec: JobSpec
    layout: Layout
    job: str  # our id of this launch, unique
    node_dir: str  # the job's own directory on every node, 0700
    starter: str  # who starts the ranks: mpirun or srun
    connect: str  # what the serving step offers to mpirun: ssh …, or "" where a scheduler reaches the nodes
    stdin: str  # who reads standard input: rank (0, through a pipe of ours), or "" the RUN step itself
    alone: bool  # outside-in: each rank of a node has a container of its own
    counted: bool  # every rank reports, so that a missing one is noticed
    steps: tuple[Step, ...]
    needs: tuple[tuple[str, str], ...]  # (kind, path) that every node must have
    notes: Words = ()

    def step(self, phase: Phase) -> Step:
        return next(step for step in self.steps if step.phase is phase)


@dataclass(frozen=True)
class Command:
    """A step carried to a place: what exactly starts there."""

    step: Step
    argv: Words


@dataclass(frozen=True)
class Outcome:
    """How a launch ended: the exit code, and the ranks that reported, by node."""

    code: int
    ranks: Mapping[str, int] = field(default_factory=dict)
    why: str = field(default="", compare=False)  # where that is not the program's own end

"""The data of a launch. All classes are frozen, and no code here acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

Words = tuple[str, ...]


class Listed(str):
    """A word `OPTION=LIST` whose list may be longer than Linux's limit for one word (128 kB, execve(2)).

    The function that starts the command puts `text` into a file, and the file's name after the option. The string
    itself is for display.
    """

    option: str
    text: str

    def __new__(cls, option: str, shown: str, text: str) -> Listed:
        made = super().__new__(cls, option + shown)
        made.option, made.text = option, text
        return made


class Phase(Enum):
    """The time of a step. STOP happens in every case."""

    PREPARE = "prepare"
    SERVE = "serve"
    AWAIT = "await"
    RUN = "run"
    STOP = "stop"


class Where(Enum):
    """The nodes on which a step runs, and how often."""

    HEAD = "head"  # once, on the first node
    ALL = "all"  # once on every node
    RANKS = "ranks"  # once for each rank, started by the scheduler
    HERE = "here"  # in the launcher itself


@dataclass(frozen=True)
class Mount:
    """A mount `source[:target[:options]]`, as Apptainer and Docker write it."""

    source: str
    target: str = ""
    options: str = ""

    def __str__(self) -> str:
        target = self.target or self.source
        return ":".join(filter(None, (self.source, target, self.options)))


@dataclass(frozen=True)
class Variable:
    """One variable of the job.

    `value` None removes it. An `inherited` variable takes its value where the job starts, so that the batch script does
    not contain it.
    """

    name: str
    value: str | None
    inherited: bool = field(default=False, compare=False)
    why: str = field(default="", compare=False)


@dataclass(frozen=True)
class Asked:
    """A named host, and its number of ranks if that was given."""

    name: str
    slots: int | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.slots}" if self.slots is not None else self.name


@dataclass(frozen=True)
class JobSpec:
    """The checked and typed request of the user, without any fact of a cluster."""

    command: Words = ()
    script: str = ""  # runs once in the master container instead of `command`
    once: bool = False  # the command starts its own ranks: mpirun ./app
    shell: str = ""  # a shell instead: "terminal", or "input" for commands from standard input
    mode: str = "inside-out"
    image: str = ""  # an absolute path, or the runtime's name for an image of a registry
    pull: str = "missing"
    pull_timeout: int = 1800  # seconds, for PREPARE
    image_cache: str = ""  # directory where images of registries become files
    runtime: str = "apptainer"
    container_args: Words = ()
    container_per: str = "auto"
    privileged: bool = False
    hardened: bool = False
    podman_root: str = ""  # on the nodes
    binds: tuple[Mount, ...] = ()
    home: str = ""  # "" if it is not mounted
    chdir: str = "/"
    umask: str = "0022"
    env: tuple[Variable, ...] = ()  # variables of every rank
    passed: Words = ()  # names in `env` from -x and --env-file
    asked_env: tuple[Variable, ...] = ()  # variables of -x alone, as given
    env_files: Words = ()
    launcher: str = "auto"
    mpi: str = "auto"
    left: Words = ()  # options among mode, launcher and mpi that mnrun chooses
    mpi_args: Words = ()
    bind_to: str = ""
    connect: str = "auto"  # auto: ssh if every node has it, else the pipe
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
    require: str = "any"  # the network that ranks must use between nodes: ib, tcp
    nv: bool = False  # without effect, since nodes with the driver have it on
    nodelist: str = ""
    exclude: str = ""
    # options of a batch job, in sbatch's spelling
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
    hosts: tuple[Asked, ...] = ()  # hosts without a scheduler
    hostfile: str = ""  # the file that named them
    ssh_user: str = ""
    ssh_port: int | None = None
    rsh: str = "auto"
    stage: bool = False
    ports: str = "20000-29999"
    fabric: str = "auto"
    start_timeout: int = 120  # seconds from the first container start until every node is ready
    keep: bool = False
    force: bool = False
    job_dir: str = ""
    job_file: str = ""  # as given
    profile: str = ""
    as_given: bool = False  # for a call in mnrun's batch script, where only its own options count
    mnrun: str = ""  # the command that the batch script calls
    slurm_poll: int = 30  # least number of seconds between two questions to Slurm
    templates: str = ""  # a directory searched before mnrun's own
    quiet: bool = False
    verbose: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)  # option -> its origin
    setup_origins: Words = field(default=(), compare=False)  # origin of each line in `setup`
    # (option, a word of it) -> origin
    word_origins: Mapping[tuple[str, str], str] = field(default_factory=dict, compare=False)

    def own(self, option: str) -> bool:
        """Return whether this very job asks for the option. A site's setting for every job does not count."""
        own = (f"{self.job_file} line", "MNRUN_") if self.job_file else ("MNRUN_",)
        return any(part == "command line" or part.startswith(own) for part in self.origins.get(option, "").split(", "))

    @property
    def by_reference(self) -> bool:
        """Return whether the image is a registry's, which must be pulled before anything starts."""
        return bool(self.image) and not self.image.startswith("/")


@dataclass(frozen=True)
class Node:
    """A job's share of one node: CPUs, GPUs, and the number of ranks if one was given."""

    name: str
    cpus: int = 1
    gpus: int = 0
    slots: int | None = None


@dataclass(frozen=True)
class Allocation:
    """The held nodes, in the scheduler's own order."""

    scheduler: str
    job: str
    nodes: tuple[Node, ...]
    ntasks: int | None = None  # as the job asked for, None if it did not
    ntasks_per_node: int | None = None
    given_back: Mapping[str, str] = field(default_factory=dict)  # job variables for the ranks


@dataclass(frozen=True)
class Worker:
    """A node's readiness record: its own report in its `ready` line."""

    name: str  # the scheduler's name of the node
    host: str  # its own host name
    address: str  # address for the other nodes, "" if only its name is known
    port: int = 0  # port of its sshd, 0 without one
    step: str = ""  # the scheduler's id of the serving step
    user: str = ""  # name of the job's user there
    image: str = ""  # SIZE.SUM of its image file, with the sum of its header, or `directory`


@dataclass(frozen=True)
class Layout:
    """The number of ranks on each node, the same for every starter."""

    nodes: tuple[str, ...]  # names, or empty while no nodes are held
    ranks: tuple[int, ...]  # number on each node, in the same order
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
    """The facts of a cluster that shape the words of the steps."""

    scheduler: str
    job: str  # the scheduler's id of the surrounding job
    slurm: tuple[int, int] = (0, 0)  # Slurm's version
    plm_slurm_args: str = ""  # srun's options that this Slurm sets for Open MPI
    gpus: Mapping[str, int] = field(default_factory=dict)  # node -> number of its GPUs that the job holds
    binds: bool = True  # whether this Slurm binds tasks to CPUs
    overcommit: bool = False  # whether there are more ranks than CPUs
    restart: int = 0  # number of earlier starts by the scheduler
    inside: bool = False  # whether mnrun is a process of the job, so that the job cannot end before it


@dataclass(frozen=True)
class Box:
    """A container, in terms that every runtime has."""

    image: str
    binds: tuple[Mount, ...]
    home: str
    chdir: str
    args: Words = ()
    job: str = ""  # mnrun's id of the launch
    privileged: bool = False
    hardened: bool = False


@dataclass(frozen=True)
class Step:
    """One step of a launch: the same words for every site, without node names."""

    phase: Phase
    where: Where
    argv: Words
    why: str
    background: bool = False


@dataclass(frozen=True)
class Plan:
    """All steps of a launch, before anything is done."""

    spec: JobSpec
    layout: Layout
    job: str  # mnrun's id of this launch, unique
    node_dir: str  # the job's own directory on every node, 0700
    starter: str  # program that starts the ranks: mpirun, srun, env or torchrun
    connect: str  # mpirun's way to the nodes: ssh, pipe, auto, or "" where a scheduler reaches the nodes
    stdin: str  # reader of standard input: "rank" (rank 0), or "" for the RUN step itself
    alone: bool  # outside-in: whether each rank of a node has a container in its own user namespace
    counted: bool  # whether every rank reports, so that mnrun notices a missing one
    steps: tuple[Step, ...]
    needs: tuple[tuple[str, str], ...]  # (kind, path) of the files and programs that every node must have
    notes: Words = ()

    def step(self, phase: Phase) -> Step:
        return next(step for step in self.steps if step.phase is phase)


@dataclass(frozen=True)
class Command:
    """A step of one site: the exact words that start there."""

    step: Step
    argv: Words


@dataclass(frozen=True)
class Outcome:
    """The end of a launch: the exit code, and the number of ranks that reported, by node."""

    code: int
    ranks: Mapping[str, int] = field(default_factory=dict)
    why: str = field(default="", compare=False)  # reason, if the program did not end by itself

"""Define the data of a launch. All classes are frozen, and no code here acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Annotated

from mnrun.jobspec import JobSpec, Mount, Variable
from mnrun.record import Record

Words = tuple[str, ...]

# In a plan, a name stands for each value that only the job knows. It begins with a character that nobody types.
MARK = "\x1aMNRUN_"
NODES = f"{MARK}NODES"  # all nodes of the job
# ulimit(1)'s letters for the names of limits.conf(5)
ULIMITS = {
    **{"memlock": "l", "stack": "s", "nofile": "n", "core": "c", "nproc": "u", "data": "d", "as": "v", "cpu": "t"},
    "fsize": "f",
}


class Listed(str):
    """A word `OPTION=LIST` that may be longer than Linux allows (128 kB, execve(2)). `text` goes into a file, and the
    file's name after the option. The string itself is for display."""

    option: str
    text: str

    def __new__(cls, option: str, shown: str, text: str) -> Listed:
        word = super().__new__(cls, option + shown)
        word.option, word.text = option, text
        return word


class Phase(Enum):
    """The phase of a step. STOP happens in every case."""

    PREPARE = "prepare"
    SERVE = "serve"
    AWAIT = "await"
    RUN = "run"
    STOP = "stop"


class Where(Enum):
    """The nodes on which a step runs, and its number of processes there."""

    HEAD = "head"  # once, on the first node
    ALL = "all"  # once on every node
    RANKS = "ranks"  # once for each rank, started by the scheduler
    HERE = "here"  # in the launcher itself


class Node(Record):
    """A job's share of one node: CPUs, GPUs, and the number of ranks if one was given."""

    name: str
    cpus: int = 1
    gpus: int = 0
    slots: int | None = None


class Allocation(Record):
    """The nodes of a job, in the scheduler's order."""

    scheduler: str
    job: str
    nodes: tuple[Node, ...]
    ntasks: int | None = None  # as the job asked for, None if it did not
    ntasks_per_node: int | None = None  # at most, where ntasks is fewer than that gives
    cpus_per_task: int | None = None  # of those tasks, None if the job did not ask for a number
    given_back: Mapping[str, str] = {}  # job variables for the ranks
    note: str = ""  # for people, of what mnrun leaves unused, or cannot do in this job
    called: str = ""  # its id as people type it, where that differs: 12_3 for a task of an array


class Unwell(Record):
    """The state of a node that its scheduler does not hold for well, in words. Nothing can start on a `dead` one. A
    `starved` one had too little memory for the job. Those that are `named` can be left out by --exclude."""

    words: str
    dead: bool = True
    starved: bool = False
    named: bool = True


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
    master: int = 0  # a free port of the first node, for the ranks' MASTER_PORT
    service: int = field(default=0, repr=False)  # another, for a service


@dataclass(frozen=True)
class ImageIdentity:
    """What tells the image of a launch from others, without reading it whole."""

    digest: Annotated[str, "its digest in the registry, or its id in the runtime's store; empty if unknown"] = ""
    sif: Annotated[str, "of a SIF, the id that was written into it when it was made"] = ""
    size: Annotated[int, "of a file, in bytes; 0 if unknown"] = 0
    written: Annotated[float, "when the file was written, in seconds since 1970; 0 if unknown"] = 0.0


UNKNOWN_IMAGE = ImageIdentity()


@dataclass(frozen=True)
class Layout:
    """The number of ranks on each node, the same for every starter."""

    nodes: tuple[str, ...]  # names, or empty while no nodes are held
    ranks: tuple[int, ...]  # number on each node, in the same order
    why_ranks: str = ""
    why_nodes: str = ""
    # Whether the scheduler chooses the number of nodes. Then `ranks` has one entry, which holds all ranks.
    open: bool = False
    gpus: tuple[int, ...] = ()  # number of those that each node gives, if nodes are held
    cpus: tuple[int, ...] = ()  # the same of CPUs, or of slots where these are given for a host
    overcommit: bool = False  # whether there are more ranks than CPUs

    @cached_property
    def ntasks(self) -> int:
        return sum(self.ranks)

    @property
    def nnodes(self) -> int:
        return len(self.ranks)


class Site(Record):
    """The facts of a cluster that shape the words of the steps."""

    scheduler: str
    job: str  # the scheduler's id of the surrounding job
    details: object = None  # what the scheduler's package alone wants to know
    gpus: Mapping[str, int] = {}  # node -> number of its GPUs that the job holds
    binds: bool = True  # whether the scheduler binds tasks to CPUs
    restart: int = 0  # number of earlier starts by the scheduler
    inside: bool = False  # whether mnrun is a process of the job, so that the job cannot end before it
    script: str = ""  # id of the job, as people type it, if mnrun is in its batch script, and in no step
    step: bool = False  # whether mnrun is a task of one of the job's steps, so that a signal to all steps reaches it
    channels: bool = False  # whether each node has a channel of its own, and no client starts a step on all
    called: str = ""  # the job's id as people type it, where that differs: 12_3 for a task of an array
    foretold: bool = False  # whether the scheduler sends each process a warning, some time before it ends the job
    beside: str = ""  # the running job beside whose ranks the launch is, as people type it
    around: tuple[str, str] = ("", "")  # its scheduler, and its id there

    @property
    def name(self) -> str:
        """Return the job's id as people type it."""
        return self.called or self.job


class Container(Record):
    """A container, in terms that every runtime has."""

    image: str
    binds: tuple[Mount, ...]
    home: str
    chdir: str
    args: Words = ()
    job: str = ""  # mnrun's id of the launch
    privileged: bool = False
    hardened: bool = False

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """Return all mounts. The home directory comes first, so that the user's mounts can lie above it."""
        return (Mount(self.home), *self.binds) if self.home else self.binds


class Step(Record):
    """One step of a launch: the same words for every site, without node names."""

    phase: Phase
    where: Where
    argv: Words
    why: str
    background: bool = False


BOX = "box"  # the name of the part of the job's directory that containers see, and may change


def box_dir(node_dir: str) -> str:
    """Return the part of the job's directory that its containers see."""
    return f"{node_dir}/{BOX}"


class OfSchedulers(Record):
    """The schedulers' variables, as the nodes of a launch need them."""

    rules: str = ""  # the text of rules.sh: what leaks
    jobs: Words = ()  # NAME=NUMBER of each job around this launch
    ranks: str = ""  # lines of sh that tell a rank its place in its scheduler's words
    script: tuple[Variable, ...] = ()  # the same for a program that runs once
    marks: Words = ()  # the variables by which a process belongs to a job
    submits: Words = ()  # the programs that hand in jobs
    files: Mapping[str, str] = {}  # name -> text, for ranks that the scheduler starts
    hidden: tuple[Variable, ...] = ()  # those that mpirun must not see, and that ranks get


class Plan(Record):
    """All steps of a launch, before anything is done."""

    spec: JobSpec
    layout: Layout
    job: str  # mnrun's id of this launch, unique
    node_dir: str  # the job's own directory on every node, 0700
    needs: tuple[tuple[str, str], ...]  # (kind, path) of the files and programs that every node must have
    starter: str = ""  # program that starts the ranks: mpirun, srun, env, torchrun, ray, or auto: mpirun or else env
    connect: str = ""  # mpirun's way to the nodes: ssh, pipe, or "" where a scheduler reaches the nodes
    stdin: str = ""  # reader of standard input: "rank" (rank 0), or "" for the RUN step itself
    alone: bool = False  # outside-in: whether each rank of a node has a container in its own user namespace
    joined: bool = False  # inside-out: whether the container of mpirun is also the one in which the first node waits
    counted: bool = True  # whether every rank reports, so that mnrun notices a missing one
    steps: tuple[Step, ...] = ()
    notes: Words = ()
    words: Words = ()  # of each rank's program, if they are too long for a line
    channels: bool = False  # as in its site
    of_schedulers: OfSchedulers = OfSchedulers()

    def step(self, phase: Phase) -> Step:
        return next(step for step in self.steps if step.phase is phase)

    @property
    def by_scheduler(self) -> bool:
        """Return whether the scheduler starts the ranks, as tasks of a step."""
        return self.step(Phase.RUN).where is Where.RANKS

    @property
    def box_dir(self) -> str:
        return box_dir(self.node_dir)

    @property
    def mpirun_dir(self) -> str:
        """Return the directory with the files of mpirun: with it in the container, or outside of all containers."""
        return self.box_dir if self.spec.start.mode == "inside-out" else self.node_dir


class JobHere(Record):
    """The scheduler's job around a launch, as the wrappers on its nodes need it (wrappers/PROTOCOL.toml)."""

    variable: str = ""  # set in every process of the job: SLURM_JOB_ID
    value: str = ""  # the scheduler's id of the job
    group: str = ""  # the name of the job's control group
    warnings: Words = ()  # the signals that come before the end of the job: TERM


class Command(Record):
    """The words that start a program, and the nodes on which they start, or none for this machine. A scheduler's client
    has nodes of its own."""

    argv: Words
    nodes: Words = ()
    mark: str = ""  # a line that comes before its own output, and before its errors


class Fault(Record):
    """A reason, seen before its start, for which a job fails, or may fail."""

    code: str  # for programs
    text: str
    sure: bool = False  # whether the job fails for it


class Culprit(Record):
    """The first rank that failed by itself."""

    rank: int
    node: str


@dataclass(frozen=True)
class Outcome:
    """The end of a launch: the exit code, and the number of ranks that reported, by node."""

    code: int
    ranks: Mapping[str, int] = field(default_factory=dict)
    why: str = field(default="", compare=False)  # reason of a failure, or of an end by somebody else
    reason: str = field(default="", compare=False)  # the same for programs: an error's, or the name of a diagnosis
    culprit: Culprit | None = field(default=None, compare=False)  # known where ranks report their ends
    node_of_rank: Mapping[int, str] = field(default_factory=dict, compare=False)  # of the ranks that reported
    doubted: bool = field(default=False, compare=False)  # mpirun's daemons have not ended well, by their client
    silent: tuple[str, ...] = field(default=(), compare=False)  # nodes that have not said that nothing is left there


def job_name(spec: JobSpec) -> str:
    """Return the job's name: its own option, else the name of its program."""
    words = (spec.program.script,) if spec.program.script else spec.program.command
    return spec.batch.text("job_name") or "".join(words[:1]).rpartition("/")[2] or "mnrun"

"""Define the data of a launch. All classes are frozen, and no code here acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from mnrun.jobspec import JobSpec, Mount

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
    """A word `OPTION=LIST` whose list may be longer than Linux's limit for one word (128 kB, execve(2)).

    The function that starts the command puts `text` into a file, and the file's name after the option. The string
    itself is for display.
    """

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


@dataclass(frozen=True)
class Node:
    """A job's share of one node: CPUs, GPUs, and the number of ranks if one was given."""

    name: str
    cpus: int = 1
    gpus: int = 0
    slots: int | None = None


@dataclass(frozen=True)
class Allocation:
    """The nodes of a job, in the scheduler's order."""

    scheduler: str
    job: str
    nodes: tuple[Node, ...]
    ntasks: int | None = None  # as the job asked for, None if it did not
    ntasks_per_node: int | None = None  # at most, where ntasks is fewer than that gives
    cpus_per_task: int | None = None  # of those tasks, None if the job did not ask for a number
    given_back: Mapping[str, str] = field(default_factory=dict)  # job variables for the ranks
    components: int = 1  # of a heterogeneous job, whose first component these nodes are
    called: str = ""  # its id as people type it, where that differs: 12_3 for a task of an array


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


@dataclass(frozen=True)
class Layout:
    """The number of ranks on each node, the same for every starter."""

    nodes: tuple[str, ...]  # names, or empty while no nodes are held
    ranks: tuple[int, ...]  # number on each node, in the same order
    why_ranks: str = ""
    why_nodes: str = ""
    # Whether the scheduler chooses the number of nodes. Then `ranks` has one entry, which holds all ranks.
    open: bool = False

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
    script: str = ""  # id of the job, as people type it, if mnrun is in its batch script, and in no step
    step: bool = False  # whether mnrun is a task of one of the job's steps, so that a signal to all steps reaches it
    called: str = ""  # the job's id as people type it, where that differs: 12_3 for a task of an array

    @property
    def name(self) -> str:
        """Return the job's id as people type it."""
        return self.called or self.job


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

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """Return all mounts. The home directory comes first, so that the user's mounts can lie above it."""
        return (Mount(self.home), *self.binds) if self.home else self.binds


@dataclass(frozen=True)
class Step:
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


@dataclass(frozen=True)
class Plan:
    """All steps of a launch, before anything is done."""

    spec: JobSpec
    layout: Layout
    job: str  # mnrun's id of this launch, unique
    node_dir: str  # the job's own directory on every node, 0700
    starter: str  # program that starts the ranks: mpirun, srun, env, torchrun, or auto: mpirun or else env
    connect: str  # mpirun's way to the nodes: ssh, pipe, or "" where a scheduler reaches the nodes
    stdin: str  # reader of standard input: "rank" (rank 0), or "" for the RUN step itself
    alone: bool  # outside-in: whether each rank of a node has a container in its own user namespace
    joined: bool  # inside-out: whether the container of mpirun is also the one in which the first node waits
    counted: bool  # whether every rank reports, so that mnrun notices a missing one
    steps: tuple[Step, ...]
    needs: tuple[tuple[str, str], ...]  # (kind, path) of the files and programs that every node must have
    notes: Words = ()

    def step(self, phase: Phase) -> Step:
        return next(step for step in self.steps if step.phase is phase)

    @property
    def box_dir(self) -> str:
        """Return the part of the job's directory that its containers see."""
        return box_dir(self.node_dir)

    @property
    def mpirun_dir(self) -> str:
        """Return the directory with the files of mpirun: with it in the container, or outside of all containers."""
        return self.box_dir if self.spec.start.mode == "inside-out" else self.node_dir


@dataclass(frozen=True)
class Command:
    """The words that start a program, and the nodes on which they start.

    Without nodes, this machine starts the words. They may call a scheduler's client, which has nodes of its own.
    """

    argv: Words
    nodes: Words = ()
    lease_dir: str = ""  # on each node: a directory for the lease of a serving step, if it has no standard input
    mark: str = ""  # a line that comes before its own output, and before its errors


@dataclass(frozen=True)
class Fault:
    """A reason for which a job fails, or may fail, that is seen before it starts. `code` is for programs.

    `sure` says that the job fails for it.
    """

    code: str
    text: str
    sure: bool = False


@dataclass(frozen=True)
class Culprit:
    """The first rank that failed by itself."""

    rank: int
    node: str


@dataclass(frozen=True)
class Outcome:
    """The end of a launch: the exit code, and the number of ranks that reported, by node."""

    code: int
    ranks: Mapping[str, int] = field(default_factory=dict)
    why: str = field(default="", compare=False)  # reason of a failure, or of an end by somebody else
    culprit: Culprit | None = field(default=None, compare=False)  # known where ranks report their ends
    places: Mapping[int, str] = field(default_factory=dict, compare=False)  # node of each rank that reported
    silent: tuple[str, ...] = field(default=(), compare=False)  # nodes that have not said that nothing is left there


def job_name(spec: JobSpec) -> str:
    """Return the job's name: its own option, else the name of its program."""
    words = (spec.program.script,) if spec.program.script else spec.program.command
    return spec.batch.text("job_name") or "".join(words[:1]).rpartition("/")[2] or "mnrun"

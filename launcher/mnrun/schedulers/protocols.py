"""Define what a scheduler's package has: small protocols, and the unions of them that a launch and a batch job need.

common.py has a default for everything that a system may lack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mnrun.environment import Variables
from mnrun.jobspec import JobSpec, Variable, Way
from mnrun.messages import Entry
from mnrun.model import Allocation, Command, Fault, Layout, Plan, Site, Step, Unwell, Words
from mnrun.schedulers.vocabulary import (
    BatchStart,
    ClientLines,
    Foreign,
    Granted,
    JobState,
    OwnOption,
    Preset,
    Script,
    Shimmed,
    StepPlace,
    StepTask,
    Trace,
)
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.reach.transport import Transport
    from mnrun.schedulers.queue import PartitionNode, Queue


class Known(Protocol):
    """What every start of mnrun needs to know of each scheduler, also of those that it does not use."""

    TITLE: str  # its name, as people write it
    SUBMIT: str  # the program that takes batch scripts
    STARTER: str  # the name of its client in --launcher, which starts ranks: srun. "" without one
    ANCESTORS: tuple[str, ...]  # the names of programs below which the processes of its jobs run, as proc(5) has them
    VARIABLES: Variables  # its variables: those that must not leak, and those that ranks get
    OPTION: OwnOption  # the option and the table in files for what mnrun has no option for: --slurm, [slurm]
    MESSAGES: tuple[Entry, ...]  # its messages with cause and remedy
    FOREIGN: Foreign  # what people type of its own commands, and the answers

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """Return whether this machine can hand jobs in to it."""

    def job(self, environ: Mapping[str, str]) -> str:
        """Return the id of the job that this process is in, or ""."""

    def of_ranks(self, plan: Plan) -> tuple[Variable, ...]:
        """Return the variables of its own by which programs learn their place among all ranks, as far as the ranks
        share them. VARIABLES has the others."""


class Around(Protocol):
    """What surrounds a launch."""

    TITLE: str  # its name, as people write it
    LIMITS: str  # how an admin raises the limit `{name}` of jobs. "" if they have those of the machine

    def name(self, environ: Mapping[str, str]) -> str:
        """Return the name of the cluster."""


class Reach(Protocol):
    """How commands get to the nodes of a job."""

    SINGLE: bool  # one client starts a step on all nodes (srun). It may die with mnrun, and has errors of its own
    WARNINGS: tuple[str, ...]  # the signals that every process of a step gets before the end of its job: TERM
    ENDINGS: tuple[str, ...]  # the signals to a script that may mean the end of its job: TERM
    JOB_VARIABLE: str  # the variable that every process of a job has: SLURM_JOB_ID. "" without one
    GROUP: str  # the name of a job's control group, with {job} for its id, . for a process's own, or "" without one
    ON_NODE: str  # lines of sh: set mnrun_node to the node's name, and end if another task of the step does the work
    PROBE: str  # a function `scheduler` for bash, which prints facts of the scheduler on a node. "" without one

    CLIENT: str  # the words that a person puts before a node's name and a command: qrsh -inherit. "" for ssh
    CLIENT_LINES: ClientLines  # what its client prints about a step
    BINARY: bool  # whether its client hands on each byte of a command's output, which ssh needs

    def command(self, step: Step, plan: Plan, site: Site) -> Command:
        """Return the step's words with those of the scheduler's client in front, or with the nodes to start them on."""

    REACHES: tuple[str, ...]  # the words of --reach, the default first. () without a choice

    def reach(self, allocation: Allocation, way: Way) -> Transport | None:
        """Return the transport to the nodes, or None where `command` names a client. The word of `way` is `auto`, or
        one of REACHES."""

    def launch_environment(self, plan: Plan, site: Site) -> tuple[Variable, ...]:
        """Return the variables that the host's mpirun must see."""

    def for_mpirun(self, plan: Plan) -> dict[str, str]:
        """Return programs `out/NAME`, which the host's mpirun finds first, to start its daemons."""

    def client_environment(self, environ: Mapping[str, str], plan: Plan | None = None) -> Mapping[str, str]:
        """Return the environment of the programs that start the steps of a plan, such as srun, or other commands."""

    def on_each(
        self, allocation: Allocation, names: Sequence[str], words: Sequence[str], environ: Mapping[str, str]
    ) -> str:
        """Return the output of a short command on these nodes. Raises SchedulerError."""

    def beside(self, place: StepPlace, words: Words) -> list[Command]:
        """Return the commands that run `words` once on each of these nodes of a running job, beside its ranks."""

    def tunnels(
        self, place: StepPlace, port: int, login: tuple[str, str], entrance: Callable[[], str]
    ) -> dict[str, str]:
        """Return name -> a line by which a machine has a port of the node of a running job as its own: `here` this one,
        and by the others one that reaches `login`, a user and a host, by ssh. `entrance` gives the words by which ssh
        enters the job itself, or ""."""

    def copying(self, source: str, target: str, step: str) -> Words:
        """Return the command that copies a file of this machine to each node of a running step, in place of any file
        there."""


class State(Protocol):
    """The state of a job and of its nodes. `environ` is that of the scheduler's commands."""

    ENDS: str  # the end of what runs on a node that does not answer

    def runs(self, job: str, environ: Mapping[str, str]) -> bool:
        """Return whether the job goes on, or its state is unknown."""

    def preempted(self, job: str, environ: Mapping[str, str]) -> bool:
        """Return whether the job is in its time of grace before another one takes its nodes."""

    def ending(self, site: Site, environ: Mapping[str, str]) -> JobState:
        """Return the state in which the job ends, or UNKNOWN."""

    def time_limit(self, job: str, environ: Mapping[str, str]) -> str:
        """Return the job's time limit in the scheduler's words, or "" if it is unknown."""

    def lost(self, names: Sequence[str], environ: Mapping[str, str], since: float | None = None) -> dict[str, Unwell]:
        """Return the nodes that are not well. With `since`, also those that were started anew since."""

    def end(self, job: str, environ: Mapping[str, str]) -> None:
        """End a job or a step."""


class Scheduler(Around, Reach, State, Protocol):
    """A scheduler as every launch needs it."""


class Jobs(Protocol):
    """The jobs of a batch system: the one around this process, and one that is planned."""

    # In a job

    def current(self, environ: Mapping[str, str]) -> tuple[Allocation, Site]:
        """Return the nodes of the job that this process is in, and its site. Raises SchedulerError."""

    def questions(self, environ: Mapping[str, str]) -> tuple[Words, ...]:
        """Return the commands by which `current` will ask, so that they can be started early."""

    def start(self, environ: Mapping[str, str]) -> BatchStart:
        """Return this start of the job. Each value that the environment lacks is "" or 0."""

    def step(self, environ: Mapping[str, str]) -> StepTask:
        """Return the task of a step that this process is. Outside of steps, it is the only task."""

    def settings(self, environ: Mapping[str, str]) -> Mapping[str, tuple[int, str]]:
        """Return option -> (value, its origin) of the job's request, as far as its ranks depend on it."""

    def typed(self, word: str) -> str:
        """Return mnrun's id of a job for an id as the scheduler's own commands write it. Others stay as they are."""

    def pod(self, environ: Mapping[str, str]) -> str | None:
        """Return the working directory of nodes that are containers of the job's image, or "" before there are any.
        None means that mnrun starts the containers."""

    def partition(self, environ: Mapping[str, str]) -> str:
        """Return the partition of the job that this process is in, or ""."""

    # Before there is a job

    def for_ranks(self, plan: Plan) -> dict[str, str]:
        """Return name -> text of the files by which wrappers know a rank that the scheduler starts: step.sh on the
        node, and box/step.env in the container."""

    def site(self, environ: Mapping[str, str]) -> Site:
        """Return this site, for a plan without nodes. Raises SchedulerError."""

    def with_gpus(self, site: Site, spec: JobSpec, layout: Layout) -> Site:
        """Return the site of a plan without nodes, with the GPUs of each node. Raises Impossible."""

    def refuse(self, spec: JobSpec, site: Site) -> None:
        """Raise Impossible if the job asks for something that its steps cannot have at this site."""


class Batch(Protocol):
    """Batch scripts, requests for nodes, and the queue."""

    SIGNALS: bool  # its queue sends a job any signal. Else mnrun tells its own launcher in the job
    ENDED: str  # what mnrun cancel says of a job that had ended
    COMMENTS: bool  # a comment may stand behind an option in a script. Else it stands above
    CODES: Mapping[int, int]  # an exit code of a script that means something to it -> the code in its place

    def directives(self, spec: JobSpec, layout: Layout, environ: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return (line of the script, origin) for each option of the job."""

    def output(self, spec: JobSpec) -> str:
        """Return the pattern of the file of the job's output."""

    def objects(self, spec: JobSpec, layout: Layout, line: str, words: Words) -> tuple[JobSpec, str] | None:
        """Return the job under a name of its own, and a text in the place of its batch script, or None for a scheduler
        that takes scripts. `line` asked for it, and `words` are those of mnrun in the job. Raises UsageError or
        Impossible."""

    def logs(self, job: str, following: bool, lines: int | None, environ: Mapping[str, str]) -> Words:
        """Return the command that shows the output of a job, or () where it is in files. Raises LaunchError."""

    def recorded(self, job: str, file: str, environ: Mapping[str, str]) -> str:
        """Return the text of a record of a running job's launch, where mnrun keeps it in the job alone, or ""."""

    def inside(
        self, job: str, rank: int | None, node: str, words: Words, environ: Mapping[str, str], terminal: bool
    ) -> Command | None:
        """Return the command that runs words in the container of a rank or on a node, or else on the first one, of a
        job that leaves no records of nodes here. Return None for other jobs. Raises LaunchError."""

    def submit(self, script: str, spec: JobSpec, environ: Mapping[str, str]) -> tuple[str, str]:
        """Hand in the text of a batch script. Return the job's id, and further messages. Raises LaunchError."""

    def doubts(
        self, spec: JobSpec, nodes: Callable[[], Sequence[PartitionNode]], environ: Mapping[str, str] = {}
    ) -> list[Fault]:
        """Return faults of the request: more nodes, or more time, than the nodes of the queue allow, or variables that
        a batch job will lack. `environ` is that of a request for an allocation, and {} of a batch job."""

    def trace(self, job: str) -> Trace | None:
        """Return what the scheduler still knows of a job, or None if that is nothing."""

    def sweep(self, environ: Mapping[str, str], dry_run: bool) -> list[str]:
        """Remove what live runs have left with the scheduler, as where mnrun was killed, and return their ids. Raises
        SchedulerError."""

    def user_queue(self, environ: Mapping[str, str], home: Path, poll: float) -> Queue:
        """Return the queue, as this user may read it. `poll` is the least time between two questions, in seconds."""

    def request(self, spec: JobSpec, options: Sequence[str]) -> Words:
        """Return the command that gets an allocation for the job, or () if this process cannot hold one. `options` are
        those of `mnrun shell` that only an allocation has use for, by their names in the JobSpec."""

    def allocated(
        self, spec: JobSpec, options: Sequence[str], environ: Mapping[str, str], screen: Screen
    ) -> AbstractContextManager[Granted]:
        """Return a context that holds such an allocation, which ends with the code that it is given. Raises
        LaunchError."""

    def interactive(self, spec: JobSpec, options: Sequence[str], words: Words, environ: Mapping[str, str]) -> Words:
        """Return the command that runs `words` in a job of its own, on this terminal, or () if there is none. Only a
        scheduler whose `request` is empty needs it."""


class Texts(Protocol):
    """Texts of a job for others to run, and the job file that such a text would come of."""

    def text(self, form: str, spec: JobSpec, layout: Layout, line: str, words: Words) -> str:
        """Return the text of a form, each value with its origin. `line` asked for it, and `words` are those of mnrun in
        the job. Raises UsageError or Impossible for what the form cannot say."""

    def job_file(self, text: str, source: str, build: Callable[[str], tuple[JobSpec, Layout]]) -> tuple[str, list[str]]:
        """Return the job file of a text, and the fields of the text that it lacks. `build` makes the job of a job file.
        Raises UsageError."""


class Front(Protocol):
    """Programs of a scheduler whose lines with another tool's container options mnrun can do (mnrun shim)."""

    PROGRAMS: tuple[str, ...]  # one that starts ranks, one that takes scripts, and the other tool's own
    FRONT: str  # the script that stands in front of each, behind a function `mnrun_program` that becomes mnrun

    def shimmed(self, words: Sequence[str], environ: Mapping[str, str]) -> Shimmed | None:
        """Return what a line of the first program asks for, or None if it has no container. Raises UsageError or
        Impossible."""

    def help_text(self) -> str:
        """Return the other tool's part of the first program's help."""

    def listed(self, words: Sequence[str], running: Sequence[tuple[str, str, int]]) -> str | None:
        """Return the answer to a line of the third program, or None for one that it must answer itself. `running` has
        job, name and process number of the containers here."""

    def around(self, directives: Sequence[str]) -> dict[str, str]:
        """Return an environment for `shimmed`, of a job that a script with these words asks for."""

    def script_of(self, words: Sequence[str]) -> Script:
        """Return a line of the second program in its parts."""

    def within(
        self, script: str, container: Sequence[str], call: Sequence[str], environ: Mapping[str, str], name: str
    ) -> str | None:
        """Return a script that runs in the container that its lines or these options name, or None without one. `call`
        starts mnrun, and `name` is the file's."""


class OwnWords(Protocol):
    """The scheduler's own words."""

    def preset(self, environ: Mapping[str, str]) -> Preset:
        """Return the options of a new job that its own variables set."""


class BatchScheduler(Known, Scheduler, Jobs, Batch, OwnWords, Protocol):
    """A scheduler that also grants nodes and takes batch scripts."""

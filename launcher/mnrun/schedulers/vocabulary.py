"""Define mnrun's own words for what schedulers tell: states, ids, a start of a job, its remains.

Each scheduler's package turns its own words into these. queue.py has jobs and nodes as a queue shows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from mnrun import nodeset
from mnrun.errors import UsageError
from mnrun.record import Record
from mnrun.system.client import NOTHING, Own


class JobState(str, Enum):
    """The state of a job. JSON output has these values."""

    PENDING = "PENDING"  # a held job waits, too
    CONFIGURING = "CONFIGURING"  # its nodes boot
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"  # its nodes clean up
    REQUEUED = "REQUEUED"  # it begins anew
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    UNKNOWN = "UNKNOWN"

    def __str__(self) -> str:  # Python 3.12 and 3.11 differ in format()
        return self.value


NEVER = r"(?!)"  # matches no text
RUNNING = (JobState.RUNNING, JobState.CONFIGURING, JobState.SUSPENDED)
ACTIVE = (*RUNNING, JobState.PENDING, JobState.COMPLETING, JobState.REQUEUED)


class NodeState(str, Enum):
    """The state of a node, for those who want to start a job there."""

    FREE = "free"
    PARTLY = "partly"  # its jobs leave CPUs free
    BUSY = "busy"
    PLANNED = "planned"  # kept for a job that waits
    OUT = "out"  # takes no jobs


class JobId(Record):
    """The id of a job: 123, 123_4 for a task of an array, or 123_[5-9%2] for tasks that wait together. `number` is that
    of the job or the array. `task` is "" without an array."""

    number: str
    task: str = ""

    @classmethod
    def of(cls, text: str) -> JobId:
        number, _, task = text.partition("_")
        return cls(number, task)

    def __str__(self) -> str:
        return f"{self.number}_{self.task}" if self.task else self.number

    @property
    def several(self) -> bool:
        """Return whether the id is for tasks that wait together."""
        return self.task.startswith("[")

    def covers(self, other: JobId) -> bool:
        """Return whether `other` means this job: its own id, its array's, or that of a task that waits in it. A list
        that its scheduler has shortened (`[0,2,...]`) or cut (`[0,2,4`) may hold any task."""
        if other in (self, JobId(self.number)):
            return True
        if other.number != self.number or not self.several or not other.task.isdecimal():
            return False
        whole = self.task.endswith("]") and "..." not in self.task
        return not whole or any(int(other.task) in part for part in _ranges(self.task))

    def without(self, tasks: Collection[int]) -> JobId | None:
        """Return the id of tasks that wait together without some of them, or None if none is left. A list that its
        scheduler has shortened stays as it is."""
        parts = _ranges(self.task)
        if not self.several or len(parts) != self.task.count(",") + 1:
            return self
        whole = numbers(self.task)
        left = [task for task in whole if task not in tasks]
        if left == whole:
            return self
        limit = self.task[:-1].partition("%")[2]
        return JobId(self.number, f"[{_folded(left)}{f'%{limit}' if limit else ''}]") if left else None


LETTERS = "bcdfghjkmnpqrstvwxz2456789"  # of the ends of names: no word comes of them
_NAME = re.compile(rf"[a-z][a-z0-9-]*-[{LETTERS}]{{5}}")


def is_id(text: str) -> bool:
    """Return whether this is the id of one job: 123, or 123_4 for a task of an array, or the name app-7f3b2."""
    return re.fullmatch(r"(0|[1-9]\d*)(_\d+)?", text, re.ASCII) is not None or is_job_name(text)


def is_job_name(text: str) -> bool:
    """Return whether this is the id of a job whose scheduler has names for ids."""
    return _NAME.fullmatch(text) is not None


def job_of(launch: str) -> str:
    """Return the id of the job in the name of a launch, 123-abcdef, or the id itself."""
    return launch if is_id(launch) else launch.rpartition("-")[0] or launch


def array_size(text: str) -> int:
    """Return the number of tasks in the request of an array: 6 for `0-3,7-9:2%5`, and 0 for a job without one."""
    return len(numbers(text))


def numbers(text: str) -> list[int]:
    """Return the numbers of `0-3,7-9:2%5` in order, each once."""
    return sorted(set().union(*_ranges(text)))


def _ranges(text: str) -> list[range]:
    """Return the ranges of `0-3,7-9:2`, or of `[0-3,7-9:2%5]`, that are whole."""
    items = re.sub(r"[\[\] ]|%.*", "", text).split(",")
    parts = [re.fullmatch(r"(\d+)(?:-(\d+))?(?::([1-9]\d*))?", item, re.ASCII) for item in items]
    return [range(int(part[1]), int(part[2] or part[1]) + 1, int(part[3] or 1)) for part in parts if part]


def _folded(numbers: Sequence[int]) -> str:
    """Return sorted numbers as `0-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


class OwnOption(Record):
    """The option `--name WORD`, and the table [name] in files, for what a scheduler has and mnrun has no option for."""

    name: str
    word: Callable[[str, str], str]  # checks a typed text, by its origin, and returns it as it is kept
    entry: Callable[[str, str | None], str]  # the same for a key of the table and its value, or None for true
    ends: str = "="  # between the name in a word and its value
    synonyms: Mapping[str, tuple[str, ...]] = {}  # option -> names in words for the same
    values: Mapping[str, tuple[str, ...]] = {}  # option -> its values that become words
    site: Mapping[str, str] = {}  # the table's keys in a profile for the site -> meaning
    tables: tuple[str, ...] = ()  # the table's keys with lists of tables: [[kubernetes.volume]]


def short_options(name: str, submit: str, example: str, site: Mapping[str, str] = {}) -> OwnOption:
    """Return the own option of a scheduler whose program `submit` takes short options, such as `-l foo=1`."""

    def word(text: str, origin: str) -> str:
        if not re.match(r"!?-[a-zA-Z][a-zA-Z_]*( |$)", text):
            problem = f"--{name} {text!r} is not an option of {submit} ({origin})"
            raise UsageError(problem, f"write it as --{name} '{example}'")
        return text

    return OwnOption(name, word, lambda key, value: f"-{key}" + ("" if value is None else f" {value}"), " ", site=site)


def long_options(
    name: str,
    submit: str,
    example: str,
    synonyms: Mapping[str, tuple[str, ...]] = {},
    values: Mapping[str, tuple[str, ...]] = {},
    site: Mapping[str, str] = {},
) -> OwnOption:
    """Return the own option of a scheduler whose program `submit` takes long options. They are kept without dashes."""

    def word(text: str, origin: str) -> str:
        taken = text[: text.startswith("!")]
        bare = text[len(taken) :].lstrip("-")
        dashes = len(text) - len(taken) - len(bare)
        if dashes == 1 or not re.match(r"[a-z][a-z0-9-]+(=|$)", bare):
            problem = f"--{name} {text!r} is not a long option of {submit} ({origin})"
            raise UsageError(problem, f"write it as {example}")
        return taken + bare

    def entry(key: str, value: str | None) -> str:
        return key.replace("_", "-") + ("" if value is None else f"={value}")

    return OwnOption(name, word, entry, synonyms=synonyms, values=values, site=site)


class Preset(Record):
    """The options of a job that a scheduler's own variables set."""

    options: Mapping[str, tuple[str, str]] = {}  # option -> (variable, value)
    words: Mapping[str, str] = {}  # variable -> word of the scheduler's own option
    unknown: tuple[str, ...] = ()  # variables that mnrun does not know


class ClientLines(Record):
    """The lines by which a scheduler's client tells of a step, as regular expressions from the begin of a line."""

    client: str = "client"
    own: Own = NOTHING  # lines that nobody needs
    ends: Own = NOTHING  # lines about the program's end, which mnrun's last line may tell better
    out_of_memory: str = NEVER  # anywhere in a line
    node_failed: str = NEVER  # its first group is the node
    killed: str = NEVER  # its first group is the nodes
    died: str = NEVER  # a daemon of mpirun that ended neither by itself nor after another. Its groups: nodes, how
    ends_all: str = NEVER  # after this, the client or its scheduler ends all tasks itself

    def failed_nodes(self, lines: Iterable[str]) -> list[str]:
        """Return the nodes that failed by these lines."""
        return [match[1] for line in lines if (match := re.match(self.node_failed, line))]

    def dead_daemons(self, lines: Iterable[str]) -> dict[str, str]:
        """Return node -> how mpirun's daemon ended there, of those that something else has ended."""
        matches = [match for line in lines if (match := re.match(self.died, line))]
        return {node: match[2] for match in matches for node in nodeset.expand(match[1])}

    def nodes_of_killed(self, line: str, lines: Iterable[str]) -> tuple[str, ...]:
        """Return the nodes on which a task was killed by this line, if no one of `lines` tells who has killed it."""
        match = re.match(self.killed, line)
        return nodeset.expand(match[1]) if match and not any(re.match(self.ends_all, each) for each in lines) else ()


class Foreign(Record):
    """The words of a scheduler's own commands that people type after mnrun, and the answers to them. An answer is the
    action to take: use, write, leave it out."""

    passed: str = ""  # the long options that --OPTION passes on, with = behind those that take a value
    answers: Mapping[str, str] = {}  # of other long options
    letters: Mapping[str, str] = {}  # an option of one letter -> its long name
    verbs: Mapping[str, str] = {}  # of its commands, as mnrun's first word
    commands: Mapping[str, str] = {}  # of its commands that would run in the container
    directive: str = ""  # the begin of a batch script's lines with options
    ranks: str = ""  # a pattern of the variables for a rank's place, and for the size of the job
    lists: str = ""  # a pattern of what lists the nodes of a job


class Shimmed(Record):
    """A foreign line that starts ranks in a container, as `mnrun run` or `mnrun shell` does it."""

    options: tuple[str, ...]  # mnrun's, for the ranks
    container: tuple[str, ...]  # mnrun's, for the container
    command: tuple[str, ...]
    prompt: bool = False
    traits: frozenset[str] = frozenset()  # keys of runtimes.TRAITS
    name: str = ""  # of a container that later lines of the job may name, too
    flag: str = ""  # auto, create (there is none yet), exec (enter the running one) or no_exec
    single: bool = False  # whether one rank is asked for
    job: str = ""  # the id of the job whose container it enters, or "" for that around it
    chdir: str = ""
    node: str = ""
    output: str = ""
    error: str = ""


class Script(Record):
    """A foreign line that hands in a script, in its parts."""

    own: tuple[str, ...]  # the program's own options
    script: str  # "" for standard input
    reads: bool  # whether it would read a script from standard input
    arguments: tuple[str, ...]
    container: tuple[str, ...]  # the other tool's options


class StepPlace(Record):
    """Nodes of a running job, for a command beside its ranks."""

    job: str  # the scheduler's id
    nodes: tuple[str, ...]
    gpus: int = 0  # of the job on each of the nodes
    binds: bool = True  # whether the scheduler binds tasks to CPUs
    user: str = ""  # of hosts without a scheduler. "" leaves it to ssh
    port: int = 0  # the same
    terminal: bool = False  # whether the command gets a terminal
    whole_lines: bool = True  # whether its output may wait for the end of a line


class Trace(Record):
    """A job as its scheduler still remembers it."""

    active: bool
    output: str  # the file of a batch script, or ""
    error: str = ""  # the same
    owner: str = ""  # the name of another user, if the job is theirs
    tasks: tuple[str, ...] = ()  # the ids of the tasks of an array


@dataclass
class Granted:
    """An allocation that mnrun has got for one job: the variables of its commands, and the exit code of its end."""

    variables: Mapping[str, str]
    code: int = 0


class StepTask(Record):
    """A task of a step, with the tasks and nodes of the step. A process outside of steps is alone."""

    number: int = 0
    tasks: int = 1
    nodes: int = 1
    prompt: bool = False  # whether the step is for the terminal of a user, which the first task has


class BatchStart(Record):
    """One start of a job, as the environment of its script tells."""

    id: str  # 123, or 123_4 for a task of an array
    restart: int  # the number of earlier starts
    script: str  # the process number of the script, or ""
    name: str
    cluster: str
    nodes: int
    nodelist: str  # folded: node[01-04]
    head: str  # the first of the nodes, or ""
    scripted: bool = False  # whether this process is in the script, and in no step

    @property
    def array(self) -> str:
        """Return the id of the job's array, or of the job itself."""
        return JobId.of(self.id).number

    @property
    def task(self) -> str:
        """Return the number of the task in its array, or "" for a job without an array."""
        return JobId.of(self.id).task


def number(text: str) -> int:
    """Return a number of a scheduler's, or 0 for a text that is none. None is longer than 64 bits."""
    return int(text) if text.isdecimal() and len(text) <= 20 else 0


def shell_code(code: int) -> tuple[int, int]:
    """Return (exit code, signal) of a shell's exit code, which is 128 + N for the signal N."""
    return (0, code - 128) if code > 128 else (code, 0)


def moment(text: str) -> float:
    """Return a local time in seconds since the epoch, or 0: 2026-11-27T12:37:59, or Fri Nov 27 12:04:31 2026."""
    form = "%Y-%m-%dT%H:%M:%S" if text[:1].isdigit() else "%a %b %d %H:%M:%S %Y"
    try:
        return datetime.strptime(text, form).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def seconds(text: str) -> int:
    """Return a time such as 00:05:00 in seconds, or 0."""
    return sum(number(part) * 60**place for place, part in enumerate(reversed(text.split(":"))))


SPAN = re.compile(r"[\d:-]*\d:\d\d")  # what `span` returns


def span(seconds: int) -> str:
    """Return a time as Slurm writes it: 1-02:03:04, 2:03:04, 3:04."""
    days, rest = divmod(seconds, 86400)
    hours, minutes, last = rest // 3600, rest // 60 % 60, rest % 60
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{last:02}"
    return f"{hours}:{minutes:02}:{last:02}" if hours else f"{minutes}:{last:02}"

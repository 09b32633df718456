"""Define what a scheduler tells about one job: its nodes, its start, its remains. queue.py has those of its queue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# The states of jobs have Slurm's words (squeue(1), JOB STATE CODES). Another scheduler turns its own into them.
# CONFIGURING while its nodes boot, SIGNALING while Slurm sends the job a signal, RESIZING while it gives nodes back.
RUNNING = ("RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING")
ACTIVE = (
    *("PENDING", *RUNNING, "COMPLETING", "REQUEUED", "STAGE_OUT", "REQUEUE_FED"),
    *("REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "EXPEDITING"),  # a held job has not ended
)


@dataclass(frozen=True)
class Beside:
    """Nodes of a running job, for a command beside its ranks.

    `job` is the scheduler's id, and `gpus` the number of the job's GPUs on each of the nodes. `binds` says whether the
    scheduler binds tasks to CPUs. `user` and `port` are for hosts without a scheduler: "" and 0 leave them to ssh.
    `terminal` gives the command a terminal.
    """

    job: str
    nodes: tuple[str, ...]
    gpus: int = 0
    binds: bool = True
    user: str = ""
    port: int = 0
    terminal: bool = False


@dataclass(frozen=True)
class Trace:
    """A job as its scheduler still remembers it.

    `output` and `error` are the files of a batch script, or "" for other jobs. `owner` is the name of another user, if
    the job is theirs. `tasks` has the ids of the tasks of an array.
    """

    active: bool
    output: str
    error: str = ""
    owner: str = ""
    tasks: tuple[str, ...] = ()


@dataclass
class Granted:
    """An allocation that mnrun has got for one job: the variables of its commands, and the exit code of its end."""

    variables: Mapping[str, str]
    code: int = 0


@dataclass(frozen=True)
class StepTask:
    """A task of a step: its number, and the tasks and nodes of the step. A process outside of steps is alone.

    `prompt` says that the step is for the terminal of a user, which the first task has.
    """

    number: int = 0
    tasks: int = 1
    nodes: int = 1
    prompt: bool = False


@dataclass(frozen=True)
class BatchStart:
    """One start of a job, as the environment of its script tells.

    `id` is 123, or 123_4 for a task of an array. `restart` counts the earlier starts. `script` is the process number of
    the script, or "". `nodelist` is folded (node[01-04]), and `head` is the first of the nodes, or "". `scripted` says
    that this process is in the script, and in no step.
    """

    id: str
    restart: int
    script: str
    name: str
    cluster: str
    nodes: int
    nodelist: str
    head: str
    scripted: bool = False

    @property
    def array(self) -> str:
        """Return the id of the job's array, or of the job itself."""
        return self.id.partition("_")[0]

    @property
    def task(self) -> str:
        """Return the number of the task in its array, or "" for a job without an array."""
        return self.id.partition("_")[2]


def number(text: str) -> int:
    """Return a number of a scheduler's, or 0 for a text that is none. None is longer than 64 bits."""
    return int(text) if text.isdecimal() and len(text) <= 20 else 0


SPAN = re.compile(r"[\d:-]*\d:\d\d")  # what `span` returns


def span(seconds: int) -> str:
    """Return a time as Slurm writes it: 1-02:03:04, 2:03:04, 3:04."""
    days, rest = divmod(seconds, 86400)
    hours, minutes, last = rest // 3600, rest // 60 % 60, rest % 60
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{last:02}"
    return f"{hours}:{minutes:02}:{last:02}" if hours else f"{minutes}:{last:02}"

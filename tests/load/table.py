"""List the stories: what users type at how many terminals, what that must print, and what it may ask of slurmctld.

Data alone. engine.py plays a story and judges it.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from live import cells
from live.cells import HELLO, INSIDE, MPIRUN, SRUN, SSH, Way

POLL = 30.0  # seconds between two lists of a user's jobs: the default of --slurm-poll
# Messages to slurmctld for one job, as Slurm 24.11 sends them: three of salloc (granted, ready, given back), three of
# the one `scontrol show job`, and two of each srun. A launch has two sruns, and one more where mpirun starts the ranks.
MESSAGES = 3 + 3 + 2 * 3
LIST = 2  # messages of one squeue
WIDE = 64
USERS = ("alice", "bob")
START = "--start-timeout 300s"  # nodes of this cluster share two cores
# bob may not use docker, and podman's images are alice's.
WAYS = {
    "bob": (INSIDE, SSH, MPIRUN, SRUN, Way("inside", "host")),
    "alice": (INSIDE, SSH, MPIRUN, SRUN, Way("inside", "host"), Way("srun", "mpich"), Way("mpirun", "ompi5", "rank")),
}
MADE = tuple(Way("inside", "ompi5", runtime=name) for name in cells.MADE)


@dataclass(frozen=True)
class Line:
    """A line that a user types to bash. `says` are patterns, and the number of different lines that match each."""

    text: str
    says: Mapping[str, int] = field(default_factory=dict, hash=False)
    code: int = 0
    jobs: int = 0
    handed: int = 0  # how often mnrun itself hands in a job
    records: int = 0  # folders of records that it leaves, until `mnrun clean`


@dataclass(frozen=True)
class Terminal:
    """A terminal of a user's, and the lines that are typed there one after the other."""

    user: str
    lines: tuple[Line, ...]


Terminals = tuple[Terminal, ...]


@dataclass(frozen=True)
class Story:
    """Terminals that are in use at the same time. `terminals` makes as many as a size asks for.

    A story of the size `first` is played before the first picture. Nothing may be more after one of the size `size`.
    `nodes` is 0 where any cluster will do.
    """

    name: str
    terminals: Callable[[int], Terminals]
    size: int
    first: int
    nodes: int = 0
    engines: bool = False

    def jobs(self) -> int:
        return sum(line.jobs for line in self._lines())

    def messages(self, seconds: float) -> int:
        """Return how many messages of users slurmctld may get in that time."""
        return MESSAGES * self.jobs() + LIST * self.lists(seconds)

    def lists(self, seconds: float) -> int:
        """Return how often slurmctld may be asked for all jobs of a user in that time: at each POLL, and for each job
        that mnrun has handed in, which the last answer cannot know.
        """
        users = len({terminal.user for terminal in self.terminals(self.size)})
        return users * (int(seconds / POLL) + 1) + sum(line.handed for line in self._lines())

    def _lines(self) -> list[Line]:
        return [line for terminal in self.terminals(self.size) for line in terminal.lines]


def hello(ranks: int) -> dict[str, int]:
    """Return what hello says: each rank has a line of its own, with the right sum."""
    return {rf"rank \d+ of {ranks} on \S+ sum {ranks * (ranks + 1) // 2} VAR=": ranks}


def live(way: Way, nodes: int = 2, ranks: int = 1, program: str = HELLO) -> Line:
    """Return a launch in salloc's allocation, on nodes that other jobs may use, too."""
    salloc = f"salloc -Q --oversubscribe -N{nodes} --ntasks-per-node={ranks}"
    return Line(f"{salloc} mnrun {START} {shlex.join(way.words)} -- {program}", hello(nodes * ranks), jobs=1)


def own(way: Way, program: str = HELLO) -> Line:
    """Return a launch that gets its nodes itself."""
    shape = f"-N2 --ntasks-per-node 1 --slurm oversubscribe {START}"
    return Line(f"mnrun {shape} {shlex.join(way.words)} -- {program}", hello(2), jobs=1, handed=1)


def submitted(way: Way, program: str = HELLO) -> Line:
    """Return a job that is handed in and waited for."""
    shape = f"-N2 --ntasks-per-node 1 --slurm oversubscribe {START}"
    words = f"mnrun submit --wait -o out.$$ {shape} {shlex.join(way.words)} -- {program}"
    return Line(f"{words}; code=$?; cat out.$$; exit $code", hello(2), jobs=1, handed=1, records=1)


KINDS: tuple[Callable[..., Line], ...] = (submitted, own, live)


def clean(terminals: Terminals) -> Terminals:
    """Return the lines that remove the records of these jobs, which mnrun keeps on purpose."""
    count = {user: sum(line.records for t in terminals if t.user == user for line in t.lines) for user in USERS}
    says = {user: {f"records of {number} of {number} jobs? removed": 1} for user, number in count.items() if number}
    return tuple(
        Terminal(user, (Line("MNRUN_SLURM_POLL=1s mnrun clean --older 0d", wanted),)) for user, wanted in says.items()
    )


def crowd(size: int, made: tuple[Way, ...] = ()) -> Terminals:
    """Return jobs of two users, each at a terminal of its own; ways and kinds in turn."""
    ways = {**WAYS, "alice": (*WAYS["alice"], *made)}
    turns = {user: itertools.cycle(ways[user]) for user in USERS}
    jobs = [(USERS[number % 2], KINDS[number // 2 % 3]) for number in range(size)]
    return tuple(Terminal(user, (kind(next(turns[user]), program=f"{HELLO} -s {size // 3}"),)) for user, kind in jobs)


def series(size: int) -> Terminals:
    """Return jobs of one user, one after the other, with every way in turn."""
    ways, kinds = itertools.cycle(WAYS["alice"]), itertools.cycle(KINDS)
    return (Terminal("alice", tuple(next(kinds)(next(ways)) for _ in range(size))),)


def wide(size: int) -> Terminals:
    """Return so many launches on 64 nodes with four ranks each, one after the other, by each way to start them.

    The first is by mpirun of the nodes. There Apptainer makes folders in the home that it keeps, one for each node.
    """
    ways = itertools.islice(itertools.cycle((MPIRUN, INSIDE, SSH, SRUN)), size)
    return (Terminal("alice", tuple(live(way, nodes=WIDE, ranks=4) for way in ways)),)


def array(size: int) -> Terminals:
    """Return an array of so many tasks, and every question about it."""
    last, shape = size - 1, f"-a 0-{size - 1} -N1 -o out.%a"
    words = shlex.join(INSIDE.words)
    say = 'sh -c "echo task \\$SLURM_ARRAY_TASK_ID"'
    return (
        Terminal(
            "alice",
            (
                Line(f"mnrun submit {shape} {START} {words} -- {say} >id", jobs=size, handed=1, records=size + 1),
                Line("mnrun status $(cat id)"),
                Line("mnrun wait $(cat id); code=$?; cat out.*; exit $code", {r"task \d+$": size}),
                Line("mnrun status $(cat id)", {r"\d+_\d+ .* done .* 0$": size}),
                Line("mnrun why $(cat id)", {"is an array; name one of its tasks": 1}, code=2),
                Line(f"mnrun why $(cat id)_{last}", {rf"job \d+_{last}: done, with code 0": 1, rf"  task {last}$": 1}),
                Line(f"mnrun report $(cat id)_{last}", {r"launch .*: 1 node, ": 1}),
            ),
        ),
    )


def watchers(size: int) -> Terminals:
    """Return terminals that show the jobs of their user every two seconds, as `watch mnrun status` does, and jobs."""
    seconds = min(90, 5 * size)
    again = f"while [ $SECONDS -lt {seconds} ]; do mnrun status || exit; n=$((n + 1)); sleep 2; done"
    loop = f"n=0; {again}; echo $$ had $n answers"
    look = Line(f"script -qec {shlex.quote(loop)} /dev/null", {r"\d+ had [1-9]\d* answers": 1})
    program = f"{HELLO} -s 30"
    jobs = [Terminal(user, (kind(INSIDE, program=program),)) for user in USERS for kind in (live, submitted)]
    return (*(Terminal(USERS[number % 2], (look,)) for number in range(size)), *jobs)


STORIES = (
    Story("60 jobs at once", lambda size: crowd(size, MADE), 60, 20, nodes=8, engines=True),
    Story("300 jobs, one after the other", series, 300, 7),
    Story("64 nodes with 4 ranks each", wide, 4, 1, nodes=WIDE),
    Story("an array of 200", array, 200, 8),
    Story("20 terminals with `watch mnrun status`", watchers, 20, 2),
)

"""Count what a command costs on the nodes of a rehearsal cluster, and on them alone.

CPU time comes from a control group for each node. All processes of the node live in it, with all that they start.
Forks come from the node's own pid namespace. It numbers processes and threads in order, so the difference of two new
ones is the number of those between. Neighbours on the same machine disturb neither of the two. They disturb wall time.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rehearsal import cgroups, enter, nodes
from rehearsal.door import NEWPID, join
from rehearsal.errors import ClusterError, Unable
from rehearsal.model import LOGIN, Cluster
from rehearsal.namespaces import nsenter

RESERVED = 300  # the first number after the last one has been given (RESERVED_PIDS, kernel/pid.c)
GONE = 30.0  # seconds that a job's processes have to be gone
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """The cost of one run. `cpu` includes the login node's, `forks` does not. `machine_…` has all of this machine's."""

    wall: float  # seconds until the command returned
    teardown: float  # seconds from then until its last process had gone
    cpu: float  # seconds of user and system time
    login_cpu: float
    forks: int
    login_forks: int
    machine_cpu: float
    machine_forks: int


@dataclass(frozen=True)
class Done:
    """The end of a command: its cost, its exit code, and its output and errors together."""

    cost: Cost
    code: int
    text: str


@dataclass(frozen=True)
class _Reading:
    cpu: dict[str, float]
    forks: dict[str, int]
    machine_cpu: float
    machine_forks: int


class Meter:
    """The counters of a running cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.first: dict[str, int] = {}
        for node in cluster.options().everyone:
            pid = cluster.pid(node)
            if pid is None:
                raise Unable(f"{node} is switched off: heal it, or take another cluster")
            self.first[node] = pid
        self.groups = self._gather()

    def _gather(self) -> dict[str, Path]:
        """Return the control group of each node, with all of its processes in it."""
        made = {node: cgroups.counted(self.cluster, node) for node in self.first}
        if self.cluster.options().cgroup:
            return made
        for node, group in made.items():
            network = {os.stat(f"/run/netns/{self.cluster.netns(node)}").st_ino}
            while outside := set(nodes.processes(network)) - _members(group):
                for pid in outside:
                    _enter(group, pid)
        return made

    def run(self, node: str, words: Sequence[str], environ: Iterable[str] = (), user: str = "alice") -> Done:
        """Run a command in a node as `user`, and wait until every process that it started has gone."""
        line = [*nsenter(self.first[node]), *enter.words(["env", *environ, *words], user, None, "dumb")]
        before, others = self._read(), self._alive()
        begin = time.monotonic()
        done = subprocess.run(
            line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
            preexec_fn=lambda: _enter(self.groups[node], 0),
        )
        end = time.monotonic()
        self._await_gone(others, end + GONE)
        gone = time.monotonic()
        return Done(_cost(before, self._read(), end - begin, gone - end), done.returncode, done.stdout)

    def idle(self, seconds: float) -> Cost:
        """Return the cost of the cluster while nothing runs on it."""
        before = self._read()
        time.sleep(seconds)
        return _cost(before, self._read(), seconds, 0)

    def _alive(self) -> set[int]:
        return set().union(*map(_members, self.groups.values()))

    def _await_gone(self, others: set[int], deadline: float) -> None:
        while left := self._alive() - others:
            if time.monotonic() > deadline:
                texts = "\n".join(f"    {pid} {_command(pid)}" for pid in sorted(left))
                raise ClusterError(f"processes that outlive their job by {GONE:.0f} s:\n{texts}")
            time.sleep(0.01)

    def _read(self) -> _Reading:
        lines = dict(line.split(" ", 1) for line in Path("/proc/stat").read_text().splitlines())
        user, nice, system, _, _, interrupts, soft = map(int, lines["cpu"].split()[:7])
        return _Reading(
            {node: _seconds(group) for node, group in self.groups.items()},
            dict(zip(self.first, _newest(list(self.first.values())))),
            (user + nice + system + interrupts + soft) / TICKS,
            int(lines["processes"]),
        )


def _cost(before: _Reading, after: _Reading, wall: float, teardown: float) -> Cost:
    cpu = {node: after.cpu[node] - before.cpu[node] for node in after.cpu}
    forks = {node: forks_between(before.forks[node], after.forks[node]) for node in after.forks}
    return Cost(
        round(wall, 4),
        round(teardown, 4),
        round(sum(cpu.values()), 4),
        round(cpu[LOGIN], 4),
        sum(forks.values()) - forks[LOGIN],
        forks[LOGIN],
        round(after.machine_cpu - before.machine_cpu, 2),
        after.machine_forks - before.machine_forks,
    )


def forks_between(before: int, after: int, limit: int = 0) -> int:
    """Return how many processes and threads began between two that this meter started itself."""
    row = (limit or int(Path("/proc/sys/kernel/pid_max").read_text())) - RESERVED
    return (after - before) % row - 1


def _newest(first: Sequence[int]) -> list[int]:
    """Return the number of a new process in each of the pid namespaces of `first`. It ends at once."""
    own = os.getpid()
    numbers = []
    try:
        for pid in first:
            join(pid, NEWPID)
            numbers.append(_number())
    finally:
        join(own, NEWPID)
    return numbers


def _number() -> int:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(os.getpid()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    text = os.read(reader, 32)
    os.close(reader)
    os.close(writer)
    return int(text)


def _members(group: Path) -> set[int]:
    """Return the processes in a control group, and in those below it."""
    found: set[int] = set()
    for folder, _, _ in os.walk(group):
        found.update(map(int, Path(folder, "cgroup.procs").read_text().split()))
    return found


def _enter(group: Path, pid: int) -> None:
    """Move a process into a control group. 0 is the caller itself."""
    with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
        (group / "cgroup.procs").write_text(str(pid))


def _seconds(group: Path) -> float:
    """Return the CPU time of a control group: of version 1 in nanoseconds, of version 2 in microseconds."""
    old = group / "cpuacct.usage"
    if old.exists():
        return int(old.read_text()) / 1e9
    return int((group / "cpu.stat").read_text().split()[1]) / 1e6


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:150]
    except OSError:
        return ""

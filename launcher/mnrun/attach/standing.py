"""Ask the nodes of a running launch where its ranks stand, and read the answers of why.sh."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from mnrun import nodeset
from mnrun.attach.target import on_nodes
from mnrun.errors import NodeError
from mnrun.jobs.launches import LaunchRecord
from mnrun.model import Command
from mnrun.nodes import kit
from mnrun.schedulers import SCHEDULERS
from mnrun.system import commands

SECONDS = 90  # seconds for all nodes: a stack takes 40 at most
# In stacks of py-spy and gdb: addresses, and the numbers of threads and processes.
_NUMBERS = re.compile(r"0x[0-9a-f]+|(?<=Thread )\S+|(?<=LWP )\d+|(?<=Process )\d+")
AT_ONCE = 32  # connections to hosts at the same time
STATES = {
    "R": "runs",
    "S": "sleeps",
    "D": "waits for a device",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "zombie",
    "X": "dead",
    "I": "idle",
}  # proc(5), stat, field 3


@dataclass(frozen=True)
class RankState:
    """A program of a rank."""

    rank: Annotated[int, "the rank"]
    node: Annotated[str, "its node"]
    pid: Annotated[int, "its process on the node; 0 if the rank has ended, or its node does not answer"] = 0
    state: Annotated[str, "the letter of `ps`: `R`, `S`, `D`, `T`, `Z` …; empty if `pid` is 0"] = ""
    cpu: Annotated[int, "percent of a CPU, of one second"] = 0
    wchan: Annotated[str, "the kernel function in which it waits; empty if unknown"] = ""
    syscall: Annotated[str, "the number of the system call in which it waits; empty if unknown"] = ""
    program: Annotated[str, "its words"] = ""
    stack: Annotated[tuple[str, ...], "what `py-spy` or `gdb` printed"] = ()
    silent: Annotated[bool, "whether its node did not answer"] = False

    @property
    def words(self) -> str:
        if self.silent:
            return "no answer"
        return STATES.get(self.state, self.state) if self.state else "ended"

    @property
    def place(self) -> str:
        if self.wchan:
            return self.wchan
        return f"system call {self.syscall}" if self.syscall.isdecimal() else ""


@dataclass(frozen=True)
class Running:
    """A job that runs."""

    job: Annotated[str, "its id, or the name of a live run"]
    state: Annotated[Literal["RUNNING"], "the job's state"]
    ranks: Annotated[tuple[RankState, ...], "one for each program of a rank"]
    network: Annotated[tuple[str, ...], "the networks that mnrun has chosen, with reasons"]


def standing(target: LaunchRecord, environ: Mapping[str, str]) -> tuple[list[RankState], list[str]]:
    """Return the programs of all ranks, and a note for each node that did not answer. Raises NodeError if none did."""
    words = kit.node(target.node_dir, "why.sh")
    calls = on_nodes(target, target.nodes, words)
    own = SCHEDULERS[target.scheduler].CLIENT_LINES.own

    def ask(call: Command) -> tuple[str, str]:
        done = commands.run(call.argv, SECONDS, environ, instead="go to a machine that has it")
        words = "\n".join(filter(None, map(own.words, done.stderr.splitlines())))
        return done.stdout, (commands.last_line(words) or f"exit code {done.returncode}") if done.returncode else ""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(ask, calls))
    found = parse(line for text, _ in answers for line in text.splitlines())
    complaints = list(dict.fromkeys(complaint for _, complaint in answers if complaint))
    if complaints and not found:
        unwell = SCHEDULERS[target.scheduler].lost(target.nodes, environ, target.begun)
        why = nodeset.folded({node: state.words for node, state in unwell.items()}) or complaints[0]
        raise NodeError(f"no node of job {target.name} answered: {why}", "see mnrun status")
    return found, complaints


def parse(lines: Iterable[str]) -> list[RankState]:
    found: dict[tuple[int, int], RankState] = {}
    stacks: dict[tuple[int, int], list[str]] = {}
    for line in lines:
        word, *rest = line.split("\t")
        with suppress(ValueError):
            if word == "rank" and len(rest) == 8:
                node, rank, pid, state, cpu, wchan, syscall, program = rest
                state = "" if state == "gone" else state
                waits = "" if wchan == "0" else wchan, "" if syscall == "-" else syscall
                one = RankState(int(rank), node, int(pid), state, int(cpu), *waits, program.strip())
                found[one.rank, one.pid] = one
            elif word == "gone" and len(rest) == 2:
                found[int(rest[1]), 0] = RankState(int(rest[1]), rest[0])
            elif word == "stack" and len(rest) >= 4:
                stacks.setdefault((int(rest[1]), int(rest[2])), []).append("\t".join(rest[3:]))
    return [replace(found[key], stack=tuple(stacks.get(key, ()))) for key in sorted(found)]


def alike(states: Iterable[RankState]) -> dict[tuple[str, ...], list[RankState]]:
    """Return stack -> the programs that have it. Numbers of processes and addresses count as equal."""
    groups: dict[tuple[str, ...], list[RankState]] = {}
    for one in states:
        if one.stack:
            key = tuple(_NUMBERS.sub("#", line) for line in one.stack)
            groups.setdefault(key, []).append(one)
    return {members[0].stack: members for members in groups.values()}

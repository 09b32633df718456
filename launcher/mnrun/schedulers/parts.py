"""Hold parts that packages of batch systems are made of, where each node has a channel of its own."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun import nodeset
from mnrun.errors import NoAnswerError, NodeError, NotYours, SchedulerError, UsageError
from mnrun.jobspec import JobSpec, Variable, Way
from mnrun.model import Allocation, Command, Node, Plan, Site, Unwell, Words
from mnrun.schedulers.vocabulary import RUNNING, BatchStart, JobId, JobState, StepPlace, span
from mnrun.system import commands, process

if TYPE_CHECKING:
    import subprocess

    from mnrun.reach.transport import Transport
    from mnrun.schedulers.queue import Job

ASK, SUBMISSION = 30, 60  # seconds
LEFT = 2.0  # seconds before its limit from which a job counts as at it

# Runs a command of a scheduler within a time: commands.run, with the remedies of the scheduler.
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def user() -> str:
    """Return the name of this user, whatever the variables say."""
    return pwd.getpwuid(os.getuid()).pw_name


def ancestors() -> Iterator[tuple[str, str]]:
    """Yield the number and the program's name of this process and of each one above it."""
    process = "self"
    while process != "0":
        try:
            stat = Path("/proc", process, "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        process, program, parent = re.split(r" \((.*)\) \S ", stat, maxsplit=1, flags=re.DOTALL)
        yield process, program
        process = parent.split(" ", 1)[0]


def script_below(programs: tuple[str, ...], mark: bytes = b"") -> str:
    """Return the process number of a job's script, this process or one above it: the one right below such a program,
    or below a login shell there, whose name begins with -. Return "" without one, or if the program's own words lack
    the `mark` of those that run a script."""
    below = [""]
    for pid, program in ancestors():
        if program.startswith(programs):
            if mark and mark not in Path("/proc", pid, "cmdline").read_bytes():
                return ""
            login = below[1:-1] and Path("/proc", below[-1], "cmdline").read_bytes().startswith(b"-")
            return below[-2] if login else below[-1]
        below.append(pid)
    return ""


def leaderless() -> bool:
    """Return whether the first process of this session has ended."""
    try:
        stat = Path("/proc", str(os.getsid(0)), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def started(
    identity: str, script: str, called: str, cluster: str, names: Iterable[str], restart: int = 0
) -> BatchStart:
    """Return a start of a job on these nodes."""
    nodes = tuple(names)
    head = nodes[0] if nodes else ""
    return BatchStart(identity, restart, script, called, cluster, len(nodes), nodeset.fold(nodes), head, script != "")


def held(start: BatchStart, nodes: Sequence[Node], ranks: int | None, own: Site, note: str) -> tuple[Allocation, Site]:
    """Return the job around this process where each node has a channel of its own. `own` names the scheduler and its
    id of the job."""
    called = start.id if start.id != own.job else ""
    site = own._replace(
        gpus={node.name: node.gpus for node in nodes},
        binds=False,
        channels=True,
        restart=start.restart,
        inside=True,
        script=start.id if start.scripted else "",
        called=called,
    )
    return Allocation(own.scheduler, own.job, tuple(nodes), ntasks=ranks, called=called, note=note), site


def site(scheduler: str, environ: Mapping[str, str]) -> Site:
    """Return what is known of a job to come, where each node has a channel of its own."""
    return Site(scheduler, "JOB", binds=False, channels=True)


def variable(name: str, environ: Mapping[str, str]) -> str:
    """Return the value of a variable of the job, or ""."""
    return environ.get(name, "")


def node_file(name: str, environ: Mapping[str, str]) -> dict[str, int]:
    """Return host -> its lines in the file that a variable names, in the file's order, or {} without a file."""
    with suppress(OSError):
        return Counter(Path(environ.get(name, "")).read_text(encoding="utf-8").split())
    return {}


def hidden(names: Sequence[str], plan: Plan, site: Site) -> tuple[Variable, ...]:
    """Return the variables without which the host's mpirun finds no scheduler, and starts its daemons by mnrun."""
    return tuple(Variable(name, None) for name in names)


def lost(
    find: Callable[[Mapping[str, str]], Mapping[str, Unwell]],
    names: Sequence[str],
    environ: Mapping[str, str],
    since: float | None = None,
) -> dict[str, Unwell]:
    """Return those of these nodes that are not well, or none without an answer."""
    with suppress(SchedulerError):
        return {host: why for host, why in find(environ).items() if host in names}
    return {}


def ask(run: Run, *words: str, environ: Mapping[str, str] | None = None) -> str:
    """Return what a scheduler's command prints. Raises SchedulerError with its complaint."""
    if (done := run(words, ASK, environ)).returncode:
        raise SchedulerError(commands.complaint(done))
    return done.stdout


def hand_in(run: Run, words: Words, script: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Hand in the text of a batch script. Raises SchedulerError that says what an unanswered request may have done."""
    try:
        return run(words, SUBMISSION, environ, instead="submit from a login node", text=script)
    except NoAnswerError as error:
        remedy = "the job may have been submitted: look at mnrun status before you try again"
        raise NoAnswerError(error.message, remedy) from None


def ended(job: JobId, done: subprocess.CompletedProcess[str], foreign: str, late: str) -> bool:
    """Return whether a command has ended a job, or False if it was `late`. Raises NotYours for what is `foreign`. Both
    are regular expressions for its words."""
    said = " ".join((done.stdout + done.stderr).split())
    if re.search(foreign, said, re.IGNORECASE):
        raise NotYours(f"no job {job} of yours", [str(job)])
    if done.returncode and not re.search(late, said):
        raise SchedulerError(f"job {job}: {commands.complaint(done)}")
    return not re.search(late, said)


def of_shell(lines: Sequence[tuple[str, str]], options: str) -> Words:
    """Return the words of a batch script's `options`, a regular expression, for a command that starts a shell."""
    told = [shlex.split(line)[1:] for line, _ in lines if line.startswith("#")]
    return tuple(word for line in told if re.match(options, line[0]) for word in line)


def transport(
    allocation: Allocation,
    way: Way,
    client: Callable[[str, str, bool], Words],
    starter: Callable[[str, str], Words],
    failed: int | None = None,
) -> Transport:
    """Return a transport by clients for a node and a line, or by calls of nodes if the user wants so. The first node is
    this machine."""
    names = tuple(node.name for node in allocation.nodes)
    if way.word == "call":
        from mnrun.reach.calling import Calls

        return Calls(names, starter, names[:1], way)
    from mnrun.reach.transport import Transport

    return Transport(names, client, names[:1], failed)


def on_each(
    reach: Callable[[Allocation, Way], Transport],
    remedy: str,
    allocation: Allocation,
    names: Sequence[str],
    words: Sequence[str],
    environ: Mapping[str, str],
) -> str:
    """Return the output of a short command on these nodes. Raises NodeError."""
    transport = reach(allocation, Way())
    answers = transport.ask(tuple(words), only=names, seconds=process.PROBE)
    transport.leave()
    silent = {node: " ".join(answer.err.split()) or "no answer" for node, answer in answers.items() if answer.code}
    if silent:
        raise NodeError(f"failed on {nodeset.folded(silent)}", remedy)
    return "".join(answer.out for answer in answers.values())


def beside(place: StepPlace, words: Words, client: Callable[[str, str], Words]) -> list[Command]:
    """Return a command for each node of a running job, by clients for a node and a line of its login shell."""
    from mnrun.reach import gentle, login_shell  # imported here, since few verbs need them
    from mnrun.system import far_terminal

    def command(node: str) -> Command:
        if place.terminal:
            line = login_shell.line(far_terminal.on_terminal(words))
            return Command(far_terminal.by_near(client(node, line), served=False))
        mark = login_shell.mark()
        told = (login_shell.line(gentle.ending(mark, name), login_shell.mark()) for name in ("INT", "TERM", "KILL"))
        ends = (client(node, line) for line in told)
        return Command(gentle.client(client(node, login_shell.line(words, mark)), *ends), mark=mark)

    return [command(node) for node in place.nodes]


def by_ssh(place: StepPlace, words: Words, client: Callable[[str, str, bool], Words]) -> list[Command]:
    """Return a command for each node of a running job, by ssh clients for a node and a line of its login shell."""
    from mnrun.reach import login_shell

    mark = "" if place.terminal else login_shell.mark()
    line = login_shell.line(words, mark)
    return [Command(client(node, line, place.terminal), mark=mark) for node in place.nodes]


def refuse_folders(spec: JobSpec, consequence: str) -> None:
    """Raise UsageError if a directory for the output is not there."""
    for option in ("output", "error"):
        folder = os.path.dirname(spec.batch.text(option))
        if folder and "%" not in folder and not os.path.isdir(folder):
            problem = f"--{option} {spec.batch.text(option)}: there is no directory {folder}"
            raise UsageError(problem, f"make it: {consequence}")


def at_terminal(client: Words) -> Words:
    """Return the words of a client that has pipes alone, with a program of ours that serves a terminal behind it."""
    from mnrun.system import far_terminal  # imported here, since few verbs need it

    return far_terminal.by_near(client, served=True)


class Queued:
    """The state of a job by what the queue of its user says, and by the clock: a scheduler may forget a job at its end.

    `find` returns the job, or None if it has ended.
    """

    def __init__(self, find: Callable[[str, Mapping[str, str]], Job | None]) -> None:
        self._find = find

    def runs(self, job: str, environ: Mapping[str, str]) -> bool:
        return self._state(job, environ) in (JobState.RUNNING, JobState.UNKNOWN)

    def ending(self, site: Site, environ: Mapping[str, str]) -> JobState:
        return self._state(site.job, environ)

    def time_limit(self, job: str, environ: Mapping[str, str]) -> str:
        with suppress(SchedulerError):
            found = self._find(job, environ)
            return span(int(found.end - found.start)) if found and found.end else ""
        return ""

    def _state(self, job: str, environ: Mapping[str, str]) -> JobState:
        try:
            found = self._find(job, environ)
        except SchedulerError:
            return JobState.UNKNOWN
        if found is not None and found.end and time.time() > found.end - LEFT:
            return JobState.TIMEOUT
        return JobState.RUNNING if found is not None and found.state in RUNNING else JobState.CANCELLED

"""Explain why a launch failed, by the nodes' reports and the scheduler's answers.

The launcher asks the scheduler only after everything has ended: nothing may come before the end of the lease.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from mnrun import nodeset
from mnrun.errors import (
    DeadlineError,
    JobEnded,
    LaunchError,
    NodeError,
    OutOfMemory,
    Requeued,
    RuntimeFailed,
)
from mnrun.jobspec import JobSpec
from mnrun.model import Outcome, Plan, Site
from mnrun.nodes.status import KILLED, LESS, Roster
from mnrun.schedulers import Scheduler, lost
from mnrun.system.screen import Screen

TASK_KILLED = re.compile(r"srun: error: (\S+): tasks? [\d,-]+: Killed")  # wording of srun
NOT_LAUNCHED = re.compile(r"srun: error: Task launch for .* failed")
CANCELLED = re.compile(r"error: \*\*\* STEP \S+ ON \S+ CANCELLED AT ")  # wording of slurmstepd
NODE_FAILED = re.compile(r"srun: error: Node failure on (\S+)")
SRUN_KILLED = "the srun that serves the nodes was killed by signal 9 (KILL)"
GUARD_KILLED = "its guard was killed"
WHO_KILLS = "look there for what kills processes: the kernel (dmesg), an administrator, a clean-up script"
LEAVE_OUT = "leave it out with --exclude {}"
OOM = re.compile(r"\boom[-_ ]kill|\bOut Of Memory\b", re.IGNORECASE)  # wording of slurmstepd and srun


class Broken(Exception):
    """Raised by a launch that cannot go on. `why` may ask the scheduler, and is called after everything has ended."""

    def __init__(self, why: Callable[[], LaunchError]) -> None:
        super().__init__(why)
        self.why = why


class Reasons:
    """The reasons of one launch. `scheduler` answers questions about its job."""

    def __init__(self, plan: Plan, site: Site, scheduler: Scheduler, environ: Mapping[str, str]) -> None:
        self._plan, self._site, self._scheduler = plan, site, scheduler
        self._environ, self._since = environ, time.time()

    def not_ready(self, roster: Roster, messages: Sequence[str], code: int, late: bool) -> LaunchError:
        """Return the error for the nodes that are not ready, by their reports and the scheduler's opinion of them.
        `code` is that of the serving step, if it has ended.

        The end of the job is a reason for all that is heard, and the steps may end before mnrun hears of it.
        """
        over = self._over(self._scheduler.ending(self._site))
        if over is not None:
            return over
        missing = roster.missing
        refused = roster.failed or roster.gone or roster.lost
        thoughts = self._scheduler.why_down(roster.unready if roster.lost else missing)
        if not roster.failed and not roster.gone:  # Slurm kills the guards of the others after a node fails
            missing = (roster.lost and tuple(node for node in roster.unready if node in thoughts)) or missing
        reasons = nodeset.folded({node: roster.why(node, thoughts) for node in missing})
        words = [line for line in messages if any(node in line for node in missing)] or messages
        noise = f" ({' | '.join(words[-3:])})" if words else ""
        count = f"{len(missing)} of {nodeset.counted(len(roster.nodes), 'node')} not ready"
        leave_out = LEAVE_OUT.format(nodeset.fold(thoughts)) if thoughts and not roster.failed else ""
        if late and not refused:
            seconds = self._plan.spec.start.timeout
            more = f"--start-timeout allows more time for the phase {roster.phase}"
            remedy = "; or ".join(filter(None, (more, leave_out)))
            return DeadlineError(f"{count} after {seconds} s: {reasons}{noise}", remedy)
        if not refused and not messages and code == KILLED:
            reasons = SRUN_KILLED
        remedy = _who_kills(roster) or leave_out
        return NodeError(f"{count}: {reasons}" + ("" if roster.failed else noise), remedy)

    def stopped(self, signum: int, went: bool, roster: Roster, screen: Screen) -> Outcome:
        """Return the outcome of a launch that a signal ended, and show it. Raise the error of its job if the job is
        over.

        Slurm sends TERM to a batch script, and salloc sends HUP to a command at its prompt (salloc.c).
        """
        if signum != signal.SIGINT:  # whoever presses Ctrl-C knows the reason
            over = self._over(self._scheduler.ending(self._site))
            if over is not None:
                raise over
        when = "" if went else " before the program began"
        why = f"ended by {signal.Signals(signum).name}{when}"
        left = f"; everything has ended on {nodeset.fold(roster.nodes)}" if roster.clean else ""
        screen.say((f"interrupted{when}" if signum == signal.SIGINT else why) + left)
        return Outcome(128 + signum, why=why)

    def cut_off(self, messages: Sequence[str], code: int) -> LaunchError:
        """Return the error for a serving step that ended unasked with `code`. The job ended, or a guard or srun was
        killed.
        """
        starved = [line for line in messages if OOM.search(line)]
        if starved:  # a site can have Slurm end a step after the kernel killed one of its processes
            return OutOfMemory(f"out of memory: {' | '.join(starved)}", LESS)
        state = self._scheduler.ending(self._site)
        over = self._over(state)
        if over is not None:
            return over
        if missing := self.silent(self._plan.layout.nodes):
            return missing
        if failed := [match[1] for line in messages if (match := NODE_FAILED.match(line))]:
            return NodeError(f"lost while the job ran: {nodeset.fold(failed)}", LEAVE_OUT.format(nodeset.fold(failed)))
        if state == "NODE_FAIL":
            return NodeError(f"a node of job {self._site.name} failed")
        words = " | ".join(messages[-3:]) or "without a message"
        if guards := nodeset.fold(node for line in messages for node in killed(line, messages)):
            return NodeError(f"{guards}: {GUARD_KILLED} ({words})", WHO_KILLS)
        if not messages and code == KILLED:
            return NodeError(SRUN_KILLED)
        return NodeError(f"the step with the containers ended while the program ran ({words})")

    def silent(self, nodes: Sequence[str], sure: bool = False) -> NodeError | None:
        """Return the error for nodes that say nothing, if the scheduler has lost one of them, or if it is `sure`."""
        if states := lost(self._scheduler, nodes, self._since, self._environ):
            problem = f"lost while the job ran: {nodeset.folded(states)}"
            return NodeError(problem, LEAVE_OUT.format(nodeset.fold(states)))
        return NodeError(f"{nodeset.fold(nodes)}: lost while the job ran") if sure else None

    def _over(self, state: str) -> LaunchError | None:
        return job_over(self._plan.spec, self._site, state, self._scheduler)


def job_over(spec: JobSpec, site: Site, state: str, scheduler: Scheduler) -> LaunchError | None:
    """Return the error for a job that the scheduler has ended in `state`, or None if it has not ended the job."""
    job = site.name
    if state == "TIMEOUT":
        limit = scheduler.time_limit(site.job)
        problem = f"job {job} reached its time limit" + (f" of {limit}" if limit else "")
        return DeadlineError(problem, f"ask for more with {'mnrun submit ' if spec.as_given else ''}--time")
    if state == "CANCELLED":
        return JobEnded(f"job {job} was cancelled")
    if state in ("PREEMPTED", "REQUEUED"):
        return Requeued(f"job {job} was {state.lower()}")
    return None


def killed(line: str, messages: Sequence[str]) -> tuple[str, ...]:
    """Return the nodes on which a task was killed, by this line of srun's.

    By one of `messages`, srun could not start a task, and ends all others itself, or Slurm has ended the step.
    """
    match = TASK_KILLED.match(line)
    others = any(NOT_LAUNCHED.match(each) or CANCELLED.search(each) for each in messages)
    return nodeset.expand(match[1]) if match and not others else ()


def failure(roster: Roster) -> LaunchError:
    """Return the error of the nodes that reported a failure."""
    if roster.failed:
        return RuntimeFailed(nodeset.folded(roster.failed))
    why = nodeset.folded({node: roster.why(node, {}) for node in (*roster.gone, *roster.lost)})
    return NodeError(why, _who_kills(roster))


def _who_kills(roster: Roster) -> str:
    """Return the remedy where guards were killed."""
    return WHO_KILLS if GUARD_KILLED in roster.lost.values() else ""


def refuse_lost(outcome: Outcome, lines: Iterable[str]) -> None:
    """Raise NodeError if mpirun, whose output has these lines, has lost a silent node. It may exit with 0 then."""
    if any(line.rstrip().endswith("has lost communication with a remote daemon.") for line in lines):
        raise NodeError(f"{nodeset.fold(outcome.silent)}: lost while the job ran")


def last_line(outcome: Outcome, lines: Iterable[str], contained: bool = True) -> tuple[str, str]:
    """Return the rank, the node and the end of a program that failed, with the cause that its output names, and the
    remedy. Without a known cause, there is no remedy, and the exception of a Python program stands for the cause.
    `contained` says whether it ran in a container.
    """
    culprit = outcome.culprit
    who = f"rank {culprit.rank} on {culprit.node}" if culprit is not None else "the program"
    from mnrun.diagnosis.recognise import diagnose, exception

    lines = list(lines)
    diagnosis = diagnose(lines, outcome.code, contained)
    end = f"{who} {_how(outcome.code)}"
    if diagnosis is None:
        return ": ".join(filter(None, (end, exception(lines, outcome.code)))), ""
    return f"{end}: {diagnosis.cause}", diagnosis.remedy


def _how(code: int) -> str:
    """Return the kind of the end, by the shell's exit codes (bash(1), EXIT STATUS)."""
    with suppress(ValueError):
        return f"was killed by signal {code - 128} ({signal.Signals(code - 128).name[3:]})"
    return f"exited with {code}"

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
    TimeLimit,
)
from mnrun.jobspec import JobSpec
from mnrun.model import Outcome, Plan, Site, Unwell
from mnrun.nodes.status import KILLED, LESS, Roster
from mnrun.schedulers import Scheduler
from mnrun.schedulers.vocabulary import JobState
from mnrun.system.screen import Screen

GUARD_KILLED = "its guard was killed"
WHO_KILLS = "look there for what kills processes: the kernel (dmesg), an administrator, a clean-up script"
LEAVE_OUT = "leave it out with --exclude {}"


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

    def unforeseen(self, nodes: Iterable[str], roster: Roster) -> list[str]:
        """Return those of these nodes that say no more, and had no warning of an end, where each end has one. They have
        ended the job: Grid Engine deletes a job that loses the processes of a node."""
        return [node for node in nodes if self._site.foretold and node not in roster.foretold]

    def not_ready(self, roster: Roster, messages: Sequence[str], code: int, late: bool) -> LaunchError:
        """Return the error for the nodes that are not ready. `code` is that of the serving step, if it has ended.

        The end of the job is a reason for all that is heard, and the steps may end before mnrun hears of it.
        """
        over = self._over(self._scheduler.ending(self._site, self._environ))
        if over is not None:
            return over
        missing = roster.missing
        refused = roster.failed or roster.gone or roster.lost
        unwell = self._scheduler.lost(roster.unready if roster.lost else missing, self._environ)
        if not roster.failed and not roster.gone:  # the scheduler kills the guards of the others after a node fails
            missing = (roster.lost and tuple(node for node in roster.unready if node in unwell)) or missing
        reasons = nodeset.folded({node: roster.why(node, unwell) for node in missing})
        words = [line for line in messages if any(node in line for node in missing)] or messages
        noise = f" ({' | '.join(words[-3:])})" if words else ""
        count = f"{len(missing)} of {nodeset.counted(len(roster.nodes), 'node')} not ready"
        leave_out = _leave_out(unwell) if not roster.failed else ""
        if late and not refused:
            seconds = self._plan.spec.start.timeout
            more = f"--start-timeout allows more time for the phase {roster.phase}"
            remedy = "; or ".join(filter(None, (more, leave_out)))
            return DeadlineError(f"{count} after {seconds} s: {reasons}{noise}", remedy)
        if not refused and not messages and code == KILLED:
            reasons = self._client_killed()
        remedy = _who_kills(roster) or leave_out
        return NodeError(f"{count}: {reasons}" + ("" if roster.failed else noise), remedy)

    def stopped(self, signum: int, went: bool, roster: Roster, screen: Screen) -> Outcome:
        """Return the outcome of a launch that a signal ended, and show it, or raise the error of a job that is over.

        Slurm sends TERM to a batch script, and salloc sends HUP to a command at its prompt (salloc.c).
        """
        # Whoever presses Ctrl-C knows the reason, and no scheduler takes the reader of the output away.
        if signum not in (signal.SIGINT, signal.SIGPIPE):
            over = self._over(self._scheduler.ending(self._site, self._environ))
            if over is not None:
                raise over
        when = "" if went else " before the program began"
        cause = ", since nobody reads the output any more" if signum == signal.SIGPIPE else ""
        why = f"ended by {signal.Signals(signum).name}{when}{cause}"
        left = f"; everything has ended on {nodeset.fold(roster.nodes)}" if roster.clean else ""
        screen.say((f"interrupted{when}" if signum == signal.SIGINT else why) + left)
        return Outcome(128 + signum, why=why)

    def cut_off(self, messages: Sequence[str], code: int) -> LaunchError:
        """Return the error for a serving step that ended unasked with `code`. The job ended, or a guard or the
        scheduler's client was killed.
        """
        lines = self._scheduler.CLIENT_LINES
        starved = [line for line in messages if re.search(lines.out_of_memory, line)]
        if starved:  # a site can have its scheduler end a step after the kernel killed one of its processes
            return OutOfMemory(f"out of memory: {' | '.join(starved)}", LESS)
        state = self._scheduler.ending(self._site, self._environ)
        over = self._over(state)
        if over is not None:
            return over
        if missing := self.silent(self._plan.layout.nodes):
            return missing
        if failed := lines.failed_nodes(messages):
            return NodeError(f"lost while the job ran: {nodeset.fold(failed)}", LEAVE_OUT.format(nodeset.fold(failed)))
        if state == JobState.NODE_FAIL:
            return NodeError(f"a node of job {self._site.name} failed")
        words = " | ".join(messages[-3:]) or "without a message"
        if guards := nodeset.fold(node for line in messages for node in lines.nodes_of_killed(line, messages)):
            return NodeError(f"{guards}: {GUARD_KILLED} ({words})", WHO_KILLS)
        if not messages and code == KILLED:
            return NodeError(self._client_killed())
        return NodeError(f"the step with the containers ended while the program ran ({words})")

    def silent(self, nodes: Sequence[str], sure: bool = False) -> LaunchError | None:
        """Return the error for nodes that say nothing, if the scheduler has lost one of them, or if it is `sure`."""
        if unwell := self._scheduler.lost(nodes, self._environ, self._since):
            return _lost(unwell)
        return NodeError(f"{nodeset.fold(nodes)}: lost while the job ran") if sure else None

    def failure(self, roster: Roster) -> LaunchError:
        """Return the error of a node. The end of its container may be all that was heard of a node that died."""
        if roster.failed:
            why = nodeset.folded(roster.failed)
            if all(text.startswith("no free port") for text in roster.failed.values()):
                return NodeError(why, "name more ports with --ports FROM-TO")
            return RuntimeFailed(why)
        # A job that ends may take the connections to its nodes along, before any warning is heard.
        channels = roster.lost and not self._scheduler.SINGLE and not self.unforeseen(roster.lost, roster)
        if channels and (over := self._over(self._scheduler.ending(self._site, self._environ))):
            return over
        nodes = tuple(roster.gone) or (tuple(roster.lost) if channels else ())
        unwell = self._scheduler.lost(nodes, self._environ, self._since) if nodes else {}
        if dead := {node: state for node, state in unwell.items() if state.dead and node in nodes}:
            return _lost(dead)
        why = nodeset.folded({node: roster.why(node, {}) for node in (*roster.gone, *roster.lost)})
        return NodeError(why, _who_kills(roster))

    def _client_killed(self) -> str:
        return f"the {self._scheduler.CLIENT_LINES.client} that serves the nodes was killed by signal 9 (KILL)"

    def _over(self, state: JobState) -> LaunchError | None:
        return job_over(self._plan.spec, self._site, state, self._scheduler, self._environ)


def job_over(
    spec: JobSpec, site: Site, state: JobState, scheduler: Scheduler, environ: Mapping[str, str]
) -> LaunchError | None:
    """Return the error for a job that the scheduler has ended in `state`, or None if it has not ended the job."""
    job = site.name
    if state == JobState.TIMEOUT:
        limit = scheduler.time_limit(site.job, environ)
        problem = f"job {job} reached its time limit" + (f" of {limit}" if limit else "")
        return TimeLimit(problem, f"ask for more with {'mnrun submit ' if spec.as_given else ''}--time")
    if state == JobState.CANCELLED:
        return JobEnded(f"job {job} was cancelled")
    if state in (JobState.PREEMPTED, JobState.REQUEUED):
        return Requeued(f"job {job} was {state.value.lower()}")
    return None


def _lost(unwell: Mapping[str, Unwell]) -> NodeError | OutOfMemory:
    states = nodeset.folded({node: state.words for node, state in unwell.items()})
    if any(state.starved for state in unwell.values()):
        return OutOfMemory(states, LESS)
    return NodeError(f"lost while the job ran: {states}", _leave_out(unwell))


def _leave_out(unwell: Mapping[str, Unwell]) -> str:
    names = [node for node, state in unwell.items() if state.named]
    return LEAVE_OUT.format(nodeset.fold(names)) if names else ""


def _who_kills(roster: Roster) -> str:
    return WHO_KILLS if GUARD_KILLED in roster.lost.values() else ""


def refuse_lost(outcome: Outcome, lines: Iterable[str]) -> None:
    """Raise NodeError if mpirun, whose output has these lines, has lost a node. It may exit with 0 then."""
    lines = list(lines)
    if any(line.rstrip().endswith("has lost communication with a remote daemon.") for line in lines):
        named = [match[1] for line in lines if (match := re.match(r" *Remote daemon: \[\S+\] on node (\S+)$", line))]
        raise NodeError(f"{nodeset.fold(outcome.silent or named)}: lost while the job ran")


def last_line(outcome: Outcome, lines: Iterable[str], contained: bool = True) -> tuple[str, str, str]:
    """Return the end of a program that failed, with the rank and the cause that its output names, the remedy, and the
    cause's code. The exception of a Python program stands for an unknown cause. `contained`: it ran in a container."""
    culprit = outcome.culprit
    who = f"rank {culprit.rank} on {culprit.node}" if culprit is not None else "the program"
    from mnrun.diagnosis.recognise import diagnose, exception

    lines = list(lines)
    diagnosis = diagnose(lines, outcome.code, contained)
    end = f"{who} {_how(outcome.code)}"
    if diagnosis is None:
        return ": ".join(filter(None, (end, exception(lines, outcome.code)))), "", ""
    return f"{end}: {diagnosis.cause}", diagnosis.remedy, diagnosis.name


def _how(code: int) -> str:
    """Return the kind of the end, by the shell's exit codes (bash(1), EXIT STATUS)."""
    with suppress(ValueError):
        return f"was killed by signal {code - 128} ({signal.Signals(code - 128).name[3:]})"
    return f"exited with {code}"

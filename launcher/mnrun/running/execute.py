"""Carry out a plan: start the steps, watch them, and end them in every case.

    prepare ─ serve ─ every node ready ─ go ─ run ─ its end ─ close the lease ─ bye from every node

The lease is the standard input of the serving step. After it is closed, every process of the job ends on every node.
"""

from __future__ import annotations

import copy
import math
import queue
import signal
import time
from collections.abc import Collection, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial

from mnrun import nodeset
from mnrun.connect import CONNECTS
from mnrun.errors import LaunchError
from mnrun.jobs.job_dir import Records
from mnrun.jobs.records import REQUEUED
from mnrun.model import Allocation, Command, Outcome, Phase, Plan, Site, Where
from mnrun.nodes import kit, relay, transport
from mnrun.nodes.status import Roster
from mnrun.planning.commands import carry
from mnrun.running import proof, reasons
from mnrun.running.forward import Forward
from mnrun.running.prepare import prepare
from mnrun.running.reasons import Broken
from mnrun.schedulers import SCHEDULERS
from mnrun.system import clock, keys, terminal
from mnrun.system.client import EXITED
from mnrun.system.process import Event, Running, Starter, Stopped, start, starting
from mnrun.system.screen import Screen
from mnrun.system.signals import Signals

GRACE = 3.0  # seconds that a program has to end by itself after a signal
ANSWER = 10.0  # seconds that the guards have to tell what their nodes wait for
FAREWELL = 10.0  # seconds that the guards have to end everything and to report it
NUDGE = 0.3  # seconds between two signals to a head that waits for its guard, which has ended


class Launch:
    """A launch under way. `execute` below is its only caller."""

    def __init__(
        self,
        plan: Plan,
        site: Site,
        environ: Mapping[str, str],
        records: Records,
        screen: Screen,
        starter: Starter,
        forwarded: Collection[signal.Signals] = Signals.PROGRAMS,
    ) -> None:
        self.plan = plan
        self.site = site
        self.scheduler = SCHEDULERS[site.scheduler]
        self.environ = dict(self.scheduler.client_environment(environ, plan))
        self.records, self.screen, self.starter = records, screen, starter
        self.forwarded = forwarded  # the signals that go on to the program
        self.reasons = reasons.Reasons(plan, site, self.scheduler, self.environ)
        # A signal handler may call SimpleQueue.put during another put: it is reentrant (Python's queue manual).
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.roster = Roster(plan.layout.nodes)
        self.prompt = plan.spec.program.prompt == "terminal"
        script = forwarded != Signals.PROGRAMS
        # whether mnrun receives signals to all steps, and the guards leave them to it
        self.step = site.step and plan.connect != "" and not self.prompt
        self.forward = Forward(
            self.scheduler, site, self.events, script=script, step=self.step, send=self._send, begun=self._begun
        )
        self.noise: list[str] = []
        self.commands: dict[Phase, Command] = {}
        self.serving: Running | None = None
        self.running: Running | None = None
        self.code: int | None = None
        self.went = False
        self.serving_ended = False
        self.cut_off = 0  # the exit code of a serving step that ended without a request
        self.silent: tuple[str, ...] = ()  # nodes that began and sent no bye
        self.unguarded: set[str] = set()  # nodes whose guard was killed
        self.missed: float | None = None  # the time at which these count as lost
        self.since = 0.0  # the begin of --start-timeout: time in which mnrun was stopped does not count

    def run(self) -> Outcome:
        with (
            Signals(self.events, {*self.forwarded, signal.SIGCONT}),
            terminal.restoring() if self.prompt else nullcontext(),
        ):
            ended: Stopped | Broken | None = None
            try:
                self.plan = prepare(self.plan, self.site, self.environ, self.events, self.screen, self.starter)
                self.commands = carry(self.plan, self.site)
                self._serve()
                # The program waits on the node for go, so that its start costs no time here. But srun --pty takes the
                # terminal from its start, and until all is ready Ctrl-C is for the launcher.
                if self.plan.step(Phase.RUN).where is Where.HEAD and not self.prompt:
                    self._start_run()
                self._await_ready()
                self._go()
                if self.running is None:
                    self._start_run()
                self._await_end()
            except (Stopped, Broken) as reason:
                ended = reason
            finally:
                self.screen.done()
                self._ask_to_end()
                self._stop()
        if isinstance(ended, Stopped):
            return self.reasons.stopped(ended.signum, self.went, self.roster, self.screen)
        if ended is not None:
            raise ended.why()
        proof.tell(self.plan, self.roster, self.records, self.screen)
        return self._judge()

    def _serve(self) -> None:
        self.records.clock.mark("serve")
        self.serving = self._start("serve", Phase.SERVE, piped=True)
        extra = {"in_step": ""} if self.step else {}
        if self.plan.connect and CONNECTS[self.plan.connect].KEYED:
            extra.update(keys.make())
        if self.plan.spec.start.mode == "outside-in":
            launch = self.scheduler.launch_environment(self.plan, self.site)
            extra["launch.env"] = kit.outside_environment(self.plan, launch)
        pulse = self.scheduler.CLIENT
        self._send(kit.pack(kit.files(self.plan, extra, pulse)))
        if pulse:
            self.serving.pulse()
        import mnrun.running.go  # noqa: F401  # this takes a while, and the nodes start meanwhile

    def _start_run(self) -> None:
        # With a terminal, srun sends a program's errors with its output. Its own standard error has only srun's.
        apart = self.prompt and self.scheduler.CLIENT
        self.running = self._start("run", Phase.RUN, piped=False, terminal=self.prompt, apart=apart)

    def _start(self, name: str, phase: Phase, piped: bool, terminal: bool = False, apart: bool = False) -> Running:
        command = self.commands[phase]
        self.screen.command(kit.typed(command))
        with starting(command.argv[0]):
            return self.starter(name, command, self.environ, self.events, piped, terminal=terminal, apart=apart)

    def _send(self, data: bytes, node: str = "") -> None:
        """Send `data` through the lease to every node. `node` is enough where each node has a connection of its own."""
        if self.serving is not None:
            self.serving.send(data, node)

    def _await_ready(self) -> None:
        self.since, soon = time.monotonic(), math.inf
        while not self.roster.complete:
            if self.events.empty():  # thousands of nodes send too many words to show each
                self.screen.phase(f"waiting for the nodes: {len(self.roster.workers)}/{len(self.roster.nodes)} ready")
            self.roster.lose(self.unguarded, reasons.GUARD_KILLED)
            refused = bool(self.roster.failed or self.roster.gone or self.roster.lost)
            self.forward.heed(self.roster.take_warning())
            if self.forward.over:
                raise Broken(self._why_cut_off)
            if self.serving_ended or (refused and self.roster.settled):
                raise self._not_ready()
            if refused or self.code is not None:
                soon = min(soon, time.monotonic() + GRACE)  # a node may report the reason in a moment
            if not self._next(min(soon, self._late())):
                self._ask_what_waits()
                raise self._not_ready(late=self.code is None)
        self.roster.check_images(self.plan)
        self.records.ready(self.roster.in_order())

    def _late(self) -> float:
        """Return the time at which what starts now is late."""
        return self.since + self.plan.spec.start.timeout

    def _ask_what_waits(self) -> None:
        """Ask the guards for their containers' logs and for what they wait for, and take in the answers."""
        self.roster.asked = True
        self._send(b"log\n")
        deadline = time.monotonic() + ANSWER
        while len(self.roster.answered) < len(self.roster.nodes) and self._next(deadline):
            pass

    def _go(self) -> None:
        from mnrun.running import go

        files = go.files(self.plan, self.roster, self.scheduler.LIMITS, self.records, self.screen)
        for data in kit.later_files(files):
            self._send(data)
        self._send(b"go\n")
        self.records.clock.mark("go")
        self.went = True
        self.screen.phase("running")
        self.screen.done()

    def _await_end(self) -> None:
        self.since, starts, apart = time.monotonic(), self.plan.counted, self.plan.starter in ("mpirun", "auto")
        while self.code is None:
            self.forward.hand_on()
            late = self._late() if starts else None
            heard = self._next(min(filter(None, (late, self.forward.due(), self.missed)), default=math.inf))
            if self.missed and time.monotonic() >= self.missed:
                self.roster.lose(self.unguarded, reasons.GUARD_KILLED)
            starts = starts and not self.roster.all_there(self.plan)
            if apart and self.roster.together:
                apart = False
                self._send(b"there\n")
            if starts and not heard and time.monotonic() >= self._late():
                self._ask_what_waits()
                if self.code is None:
                    raise self.roster.not_started(self.plan)
            if self.roster.failed or self.roster.gone or self.roster.lost:
                raise Broken(partial(self._failure, copy.deepcopy(self.roster)))
            if self.code is None and (self.serving_ended or self.forward.over):
                raise Broken(self._why_cut_off)
            self.forward.heed(self.roster.take_warning())

    def _is_over(self) -> bool:
        return self.forward.is_over(self.roster.take_warning())

    def _next(self, deadline: float) -> bool:
        """Take in one event. Return False if none came before `deadline`."""
        event = clock.take(self.events, deadline)
        if event is None:
            return False
        kind, name, data = event
        if kind == "signal":
            assert isinstance(data, int)
            raise Stopped(data)
        self._take(kind, name, data)
        return True

    def _begun(self) -> bool:
        return self.went and (not self.plan.counted or self.roster.all_there(self.plan))

    def _take(self, kind: str, name: str, data: object) -> None:
        if (kind, name) == ("told", "CONT"):
            self.since = time.monotonic()
            if signal.SIGCONT not in self.forwarded:
                return
        if kind in ("told", "state"):
            self.forward.tell(name) if kind == "told" else self.forward.learn(name, data)
            return
        if kind == "ended":
            assert isinstance(data, int)
            if name == "run":
                self.records.clock.mark("ended")
                self.code = data
            elif name == "serve":
                self.serving_ended = True
                self.cut_off = data  # 0 after the end of the lease, and 143 where Slurm ended a guard
            return
        if kind == "pipe":
            assert isinstance(data, tuple)
            self._relay(data)
            return
        line = str(data).rstrip("\r")  # ssh ends its lines for a terminal
        if name == "run":
            if not self.roster.hear(line) and not EXITED.search(line.encode()):
                self.screen.relay(line)
            return
        if kind == "noise" and (killed := reasons.killed(line, self.noise)):
            self.unguarded.update(killed)
            # The program usually ends with its guard, or the whole step does, and their own reasons count.
            self.missed = time.monotonic() + GRACE * self.went
        word = "" if kind == "noise" else self.roster.hear(line)
        self.records.log(line, word)
        if word == "starter":
            place = "node" if self.plan.spec.container.runtime == "host" else "image"
            self.screen.say(f"the {place} has no mpirun, so mnrun starts the ranks (--launcher env)")
        elif not word and line:
            self.noise.append(line)

    def _relay(self, lines: Collection[str]) -> None:
        """Pass lines from one node on to others."""
        gone = {node: self.roster.why(node, {}) for node in (*self.roster.failed, *self.roster.gone, *self.roster.lost)}
        for line in relay.join(lines):
            if (routed := relay.route(line, self.roster.nodes, gone)) is not None:
                node, words = routed
                self._send(words.encode("ascii", "replace") + b"\n", node)

    def _ask_to_end(self) -> None:
        """Give a program that still runs a moment to end by itself."""
        if self.running is None or self.code is not None or not self.went:
            return
        if self.prompt:
            self.running.end(signal.SIGHUP)  # an interactive shell ignores TERM, not HUP (bash(1), SIGNALS)
        else:
            self._send(b"end\n")
        deadline = time.monotonic() + GRACE
        with suppress(Stopped):  # a second signal ends the program at once
            while self.code is None and self._next(deadline):
                pass

    def _stop(self) -> None:
        """Close the lease, and wait until every guard has reported that nothing is left."""
        if self.serving is None:
            return
        self.serving.close()
        deadline = time.monotonic() + FAREWELL
        while not self.serving_ended and self._hear(deadline):
            pass
        self._await_head(deadline)
        self._force_end()
        for node, pids in self.roster.survivors.items():
            self.screen.warn(f"on {node} these processes could not be ended: {pids}")

    def _await_head(self, deadline: float) -> None:
        """Wait for the end of the head. Its task may begin after the end of its guard, for which it waits."""
        while self.running is not None and self.code is None and time.monotonic() < deadline:
            if not self._hear(min(deadline, time.monotonic() + NUDGE)) and not self.went:
                self.running.end(signal.SIGUSR1 if self.scheduler.CLIENT else signal.SIGTERM)

    def _hear(self, deadline: float) -> bool:
        """Take in one event, which no signal interrupts. Return False if none came before `deadline`."""
        with suppress(Stopped):
            return self._next(deadline)
        return True

    def _force_end(self) -> None:
        """End the processes that remain: on a node without connection, or after guards that died with their srun."""
        self.silent = self.roster.silent
        if self.running is not None and self.code is None and not self.went:
            self.running.end(signal.SIGTERM)  # srun ends its task
            self.running.wait(GRACE)
        for process in filter(None, (self.running, self.serving)):
            process.end(signal.SIGKILL)
        if set(self.silent) - (set(self.roster.lost) - self.unguarded) and self.serving_ended:
            self._sweep()
        elif self.silent:
            self.screen.warn(f"no final report from {nodeset.fold(self.silent)}: {self.scheduler.ENDS}")
            step = next((worker.step for worker in self.roster.workers.values()), "")
            if step:
                self.scheduler.end(f"{self.site.job}.{step}")

    def _sweep(self) -> None:
        """Do the guards' last work in a step of its own, which is quick after the guards or their undertakers."""
        sweeping = self._start("sweep", Phase.STOP, piped=True)
        sweeping.close()
        if not sweeping.wait(FAREWELL):
            sweeping.end(signal.SIGKILL)

    def _judge(self) -> Outcome:
        """Return the exit code of the program. Raise an error if ranks are missing or ran as singletons."""
        assert self.code is not None
        if starved := self.roster.out_of_memory(self.roster.first_bad or self.code):
            raise starved
        if (self.roster.failed or self.roster.lost) and self.code:
            raise self._failure(self.roster)
        if self.roster.gone and not self.cut_off:  # whichever exit code mpirun made of it
            raise self._failure(self.roster)
        if self.forward.preempted and not self.cut_off and (self.code == 0 or not self._is_over()):
            self.screen.say(f"job {self.site.name} was preempted; its program ended with {self.code}")
            return Outcome(self.code, self.roster.counts, REQUEUED)
        # An mpirun that Slurm ends may exit with 0, and Slurm may have lost a silent node. Outside-in, Slurm may end
        # the program before it warns a guard.
        unsure = self.plan.spec.start.mode == "outside-in" if self.code else self.silent
        if self.cut_off or self._is_over() or (unsure and not self.scheduler.runs(self.site.job)):
            raise self._why_cut_off()
        if self.silent and (reason := self.reasons.silent(self.silent, self.code != 0 and not self.serving_ended)):
            raise reason
        if self.code == 0:
            transport.check(self.plan, self.roster)
        # after one rank failed, srun's exit code is that of the ranks that it ended
        code = self.code and (self.roster.first_bad or self.code)
        return Outcome(code, self.roster.counts, "", self.roster.culprit, self.roster.places, self.silent)

    def _not_ready(self, late: bool = False) -> Broken:
        """Return the reason why nodes are not ready, by the facts that are known now."""
        roster, noise = copy.deepcopy(self.roster), list(self.noise)
        return Broken(partial(self.reasons.not_ready, roster, noise, self.cut_off, late))

    def _failure(self, roster: Roster) -> LaunchError:
        """Return the error of a node that reported one, or the end of the job if that is the cause."""
        return self._why_cut_off() if self._is_over() else reasons.failure(roster)

    def _why_cut_off(self) -> LaunchError:
        return self.reasons.cut_off(self.noise, self.cut_off)


def execute(
    plan: Plan,
    allocation: Allocation,
    site: Site,
    environ: Mapping[str, str],
    records: Records,
    screen: Screen,
    starter: Starter | None = None,
    forwarded: Collection[signal.Signals] = Signals.PROGRAMS,
) -> Outcome:
    """Carry out `plan` on the nodes of `allocation`, and return its outcome. Raises LaunchError.

    `starter` starts commands on the nodes in place of system.process.start. `forwarded` are the signals that go on to
    the program.
    """
    names = set(plan.layout.nodes)
    cpus = sum(node.cpus for node in allocation.nodes if node.name in names)
    if plan.layout.ntasks > cpus:
        site = replace(site, overcommit=True)
    return Launch(plan, site, environ, records, screen, starter or start, forwarded).run()

"""Carry out a plan: start the steps, watch them, and end them in every case.

    prepare ─ serve ─ every node ready ─ go ─ run ─ its end ─ close the lease ─ bye from every node

The lease is the standard input of the serving step. After it is closed, every process of the job ends on every node.
"""

from __future__ import annotations

import copy
import math
import os
import queue
import signal
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from mnrun import nodeset
from mnrun.connect import KEYED
from mnrun.errors import LaunchError, NodeError
from mnrun.jobs.job_dir import Records
from mnrun.jobs.records import REQUEUED
from mnrun.model import Command, Outcome, Phase, Plan, Site
from mnrun.nodes import kit, relay, transport
from mnrun.nodes.status import Roster
from mnrun.planning.commands import carry, job_here
from mnrun.running import reasons
from mnrun.running.forward import Forward
from mnrun.running.prepare import prepare
from mnrun.running.reasons import Broken
from mnrun.schedulers import SCHEDULERS
from mnrun.system import clock, keys, terminal
from mnrun.system.events import Ended, Event, Line, Lost, Noise, Pipe, Signal, State, Told
from mnrun.system.process import Running, Starter, Stopped, starting
from mnrun.system.screen import Screen
from mnrun.system.signals import Signals

if TYPE_CHECKING:
    from mnrun.services.serving import Serving

GRACE = 3.0  # seconds that a program has to end by itself after a signal
ANSWER = 10.0  # seconds that the guards have to tell what their nodes wait for
FAREWELL = 10.0  # seconds that the guards have to end everything and to report it
NUDGE = 0.3  # seconds between two signals to a head that waits for its guard, which has ended


@dataclass
class Launch:
    """A plan and its launch. `run` carries it out on its nodes, by commands that `starter` starts."""

    plan: Plan
    site: Site
    environ: Mapping[str, str]
    records: Records
    screen: Screen
    starter: Starter
    forwarded: Collection[signal.Signals] = Signals.PROGRAMS  # the signals that go on to the program
    # A signal handler may call SimpleQueue.put during another put: it is reentrant (Python's queue manual).
    events: queue.SimpleQueue[Event] = field(default_factory=queue.SimpleQueue)
    noise: list[str] = field(default_factory=list)
    commands: dict[Phase, Command] = field(default_factory=dict)
    serving: Running | None = None
    running: Running | None = None
    code: int | None = None
    went: bool = False
    serving_ended: bool = False
    cut_off: int = 0  # the exit code of a serving step that ended without a request
    silent: tuple[str, ...] = ()  # nodes that began and sent no bye
    unguarded: set[str] = field(default_factory=set)  # nodes whose guard was killed
    service: Serving | None = None  # the service that the program is, from go on
    around: Callable[[], bool] = lambda: True  # whether the job beside whose ranks this is still runs
    missed: float | None = None  # the time at which these count as lost
    since: float = 0.0  # the begin of --start-timeout: time in which mnrun was stopped does not count

    def __post_init__(self) -> None:
        self.scheduler = SCHEDULERS[self.site.scheduler]
        self.environ = dict(self.scheduler.client_environment(self.environ, self.plan))
        self.reasons = reasons.Reasons(self.plan, self.site, self.scheduler, self.environ)
        self.roster = Roster(self.plan.layout.nodes)
        self.prompt = self.plan.spec.program.prompt == "terminal"
        # whether mnrun receives signals to all steps, and the guards leave them to it
        self.step = self.site.step and self.plan.connect != "" and not self.prompt
        script = self.forwarded != Signals.PROGRAMS
        self.forward = Forward(
            self.scheduler, self.site, self.environ, self.events, script, self.step, self._send, self._begun
        )

    def run(self) -> Outcome:
        """Carry out the plan, and return its outcome. Raises LaunchError."""
        with (
            Signals(self.events, {*self.forwarded, signal.SIGCONT}),
            terminal.restoring() if self.prompt else nullcontext(),
        ):
            ended: Stopped | Broken | None = None
            try:
                self.plan = prepare(self.plan, self.site, self.environ, self.events, self.screen, self.starter)
                self.commands = carry(self.plan, self.site)
                self._serve()
                # The program waits on its nodes for go, so that its start costs no time here. But srun --pty takes the
                # terminal from its start, and until all is ready Ctrl-C is for the launcher.
                if not self.prompt:
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
        if why := self._unneeded(ended is not None):
            self.screen.say(f"{why}: the service was ended")
            return Outcome(0, self.roster.counts, why)
        if ended is not None:
            raise ended.why()
        self._prove()
        return self._judge()

    def _prove(self) -> None:
        spec, counts = self.plan.spec, self.roster.counts
        planned = self.plan.layout.ntasks if self.plan.counted else 0
        text = transport.summary(counts, self.roster.used, planned, spec.overhears)
        self.records.note("summary", text + "\n")
        for node, lines in self.roster.topologies.items():  # as `nvidia-smi topo -m` prints them
            self.records.note(f"topology.{node}", "\n".join(lines) + "\n")
        if counts:
            (self.screen.detail if spec.start.require == "any" else self.screen.say)(text)
        if self.roster.sampled and (used := self.records.used()):
            self.screen.say(used)
        if len(counts) != 1 and (slow := transport.slow(self.roster.used)):
            self.screen.warn(slow)

    def _serve(self) -> None:
        self.records.clock.mark("serve")
        self.serving = self._start("serve", Phase.SERVE, piped=True)
        extra = {"in_step": ""} if self.step else {}
        if self.plan.connect in KEYED:
            extra.update(keys.make())
        if self.plan.spec.start.mode == "outside-in":
            launch = self.scheduler.launch_environment(self.plan, self.site)
            extra["launch.env"] = kit.outside_environment(self.plan, launch)
            if not (self.plan.by_scheduler or self.plan.connect):
                extra |= self.scheduler.for_mpirun(self.plan)
        pulse = self.scheduler.SINGLE
        self._send(kit.pack(kit.files(self.plan, extra, job_here(self.site), pulse)))
        if pulse:
            self.serving.pulse()
        import mnrun.running.go  # noqa: F401  # this takes a while, and the nodes start meanwhile

    def _start_run(self) -> None:
        # With a terminal, srun sends a program's errors with its output. Its own standard error has only srun's.
        noise = self.prompt and self.scheduler.SINGLE
        self.running = self._start("run", Phase.RUN, piped=False, terminal=self.prompt, noise=noise)

    def _start(self, name: str, phase: Phase, piped: bool, terminal: bool = False, noise: bool = False) -> Running:
        command = self.commands[phase]
        self.screen.command(kit.typed(command, self.scheduler.CLIENT))
        with starting(command.argv[0]):
            return self.starter(name, command, dict(self.environ), self.events, piped, terminal=terminal, noise=noise)

    def _send(self, data: bytes, node: str = "") -> None:
        """Write to the leases. Where each node has a channel, only `node` gets it. srun always sends to all."""
        if self.serving is not None:
            self.serving.send(data, node)

    def _await_ready(self) -> None:
        self.since, soon = time.monotonic(), math.inf
        while not self.roster.complete:
            if self.events.empty():  # thousands of nodes send too many words to show each
                self.screen.phase(f"waiting for the nodes: {len(self.roster.workers)}/{len(self.roster.nodes)} ready")
            self.roster.lose(self.unguarded, reasons.GUARD_KILLED)
            refused = bool(self.roster.failed or self.roster.gone or self.roster.lost)
            self._ask_if_warned()
            if self.forward.over or self._unneeded(False):
                raise Broken(self._why_cut_off)
            if self.serving_ended or (refused and self.roster.settled):
                raise self._not_ready()
            # A head that has ended gets no go. The end of a client that starts no ranks is the program's own end.
            ended = self.code is not None and not self.plan.by_scheduler
            if refused or ended:
                soon = min(soon, time.monotonic() + GRACE)  # a node may report the reason in a moment
            if not self._next(min(soon, self._late())):
                self._ask_what_waits()
                raise self._not_ready(late=not ended)
        self.roster.check_images(self.plan)
        from mnrun.images import identity

        workers = self.roster.in_order()
        sizes = [worker.image.partition(".")[0] for worker in workers]
        self.records.ready(workers, identity.of(self.plan.spec.container, sizes))

    def _late(self) -> float:
        return self.since + self.plan.spec.start.timeout

    def _ask_what_waits(self) -> None:
        self.roster.asked = True
        self._send(b"log\n")
        deadline = time.monotonic() + ANSWER
        while len(self.roster.answered) < len(self.roster.nodes) and self._next(deadline):
            pass

    def _go(self) -> None:
        from mnrun.running import go

        if self.plan.spec.service.ready:
            self._serves()
        limits = self.scheduler.LIMITS
        files = go.files(self.plan, self.roster, limits, self.records, self.screen, self.service)
        for data in kit.later_files(files):
            self._send(data)
        self._send(b"go\n")
        self.records.clock.mark("go")
        self.went = True
        self.screen.phase("running")
        self.screen.done()

    def _serves(self) -> None:
        """Record the service: where it is, from go on, what it answers, and that it is ready."""
        from mnrun.services import serving

        found = self.service or serving.of(self.plan, self.roster.in_order()[0])
        state, told = self.roster.service or found.state, self.roster.serves
        waits = state == serving.WAITS
        self.service = replace(found, state=state, open=told == "open", answer=told if waits else "")
        self.records.note(serving.FILE, serving.text(self.service))
        if self.roster.service == serving.READY:
            from mnrun.running import tunnel

            name = self.site.beside or self.site.script or self.plan.job
            if os.isatty(2):  # others may be able to read what is no terminal
                scheduler, number = self.site.around if self.site.beside else (self.site.scheduler, self.site.job)
                entrance = partial(tunnel.entrance, name, self.environ)
                said = self.service.lines(SCHEDULERS[scheduler], number, entrance)
            else:
                said = self.service.told(name)
            for line in said:
                self.screen.say(line)

    def _unserved(self) -> float | None:
        """Return the time by which the service must be ready, or None if it is, or if there is none."""
        if self.service is None or self.roster.service not in ("", "waits"):
            return None
        return self.since + self.plan.spec.service.ready_timeout

    def _unneeded(self, broken: bool) -> str:
        """Return the reason that a service ends without a fault, or "". It may have `broken` with the job around it."""
        if self.roster.service == "idle" and not broken:
            return f"idle for {self.plan.spec.service.idle} s"
        killed = broken or (self.code or 0) > 128
        over = self.roster.service == "over" or (killed and not self.around())
        return f"job {self.site.beside} has ended" if over else ""

    def _refuse_late(self) -> None:
        """Raise Broken if the service should have been ready long ago."""
        from mnrun.services import serving

        if (deadline := self._unserved()) is not None and time.monotonic() >= deadline and self.code is None:
            self._ask_what_waits()
            error = serving.late(self.plan, self.roster)
            raise Broken(lambda: error)

    def _await_end(self) -> None:
        self.since, starts = time.monotonic(), self.plan.counted
        waiting = self.plan.starter in ("mpirun", "auto", "ray")
        while self.code is None:
            self.forward.hand_on()
            late = self._late() if starts else None
            soon = (late, self.forward.due(), self.missed, self._unserved())
            heard = self._next(min(filter(None, soon), default=math.inf))
            if self.service is not None:
                self._refuse_late()
                if self._unneeded(False):
                    return
            if self.missed and time.monotonic() >= self.missed:
                self.roster.lose(self.unguarded, reasons.GUARD_KILLED)
            starts = starts and not self.roster.all_there(self.plan)
            if waiting and self.roster.together:
                waiting = False
                self._send(b"there\n")
            if starts and not heard and time.monotonic() >= self._late():
                self._ask_what_waits()
                if self.code is None:
                    raise self.roster.not_started(self.plan)
            if self.roster.failed or self.roster.gone or self.roster.lost:
                raise Broken(partial(self._failure, copy.deepcopy(self.roster)))
            if self.code is None and (self.serving_ended or self.forward.over):
                raise Broken(self._why_cut_off)
            self._ask_if_warned()

    def _ask_if_warned(self) -> None:
        if self.roster.take_warning():
            self.forward.ask()

    def _is_over(self) -> bool:
        return self.forward.is_over(self.roster.take_warning())

    def _next(self, deadline: float) -> bool:
        """Take in one event. Return False if none came before `deadline`. Raises Stopped at a signal."""
        event = clock.take(self.events, deadline)
        if event is not None:
            self._take(event)
        return event is not None

    def _begun(self) -> bool:
        return self.went and (not self.plan.counted or self.roster.all_there(self.plan))

    def _take(self, event: Event) -> None:
        if isinstance(event, Signal):
            raise Stopped(event.signum)
        if isinstance(event, Told):
            if event.signal == "CONT":
                self.since = time.monotonic()
            if event.signal != "CONT" or signal.SIGCONT in self.forwarded:
                self.forward.take(event.signal)
        elif isinstance(event, State):
            self.forward.learn(event)
        elif isinstance(event, Ended) and event.name == "run":
            self.records.clock.mark("ended")
            self.code = event.code
        elif isinstance(event, Ended) and event.name == "serve":
            self.serving_ended = True
            self.cut_off = event.code  # 0 after the end of the lease, and 143 where Slurm ended a guard
        elif isinstance(event, Lost):
            self.roster.lose((event.node,), event.why)
            self.records.log(f"lost {event.node} {event.why}", "lost")
        elif isinstance(event, Pipe):
            self._relay(event.lines)
        elif isinstance(event, (Line, Noise)):
            self._read(event, event.text.rstrip("\r"))  # ssh ends its lines for a terminal

    def _read(self, event: Line | Noise, line: str) -> None:
        if event.name == "run":
            if not self.roster.hear(line) and not self.scheduler.CLIENT_LINES.own.has(line):
                self.screen.relay(line)
            return
        is_noise = isinstance(event, Noise)
        if is_noise and (killed := self.scheduler.CLIENT_LINES.nodes_of_killed(line, self.noise)):
            self.unguarded.update(killed)
            # The program usually ends with its guard, or the whole step does, and their own reasons count.
            self.missed = time.monotonic() + GRACE * self.went
        word = "" if is_noise else self.roster.hear(line)
        self.records.log(line, word)
        if word == "service" and self.service is not None:
            if self.roster.service in ("waits", "ready") and self.service.state != "ready":
                self._serves()
        elif word == "starter":
            subject = "node" if self.plan.spec.container.runtime == "host" else "image"
            self.screen.say(f"the {subject} has no mpirun, so mnrun starts the ranks (--launcher env)")
        elif word == "busy":
            self.screen.warn(self.roster.busy[-1])
        elif not word and line:
            self.noise.append(line)

    def _relay(self, lines: Collection[str]) -> None:
        gone = {node: self.roster.why(node, {}) for node in (*self.roster.failed, *self.roster.gone, *self.roster.lost)}
        for line in relay.join(lines):
            if (routed := relay.route(line, self.roster.nodes, gone)) is not None:
                node, words = routed
                self._send(words.encode("ascii", "replace") + b"\n", node)

    def _ask_to_end(self) -> None:
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
        """Wait until the head step ends. One that began after its guard had gone waits for that: signal it."""
        while self.running is not None and self.code is None and time.monotonic() < deadline:
            if not self._hear(min(deadline, time.monotonic() + NUDGE)) and not self.went:
                self.running.end(signal.SIGUSR1 if self.scheduler.SINGLE else signal.SIGTERM)

    def _hear(self, deadline: float) -> bool:
        """Do as _next does, but go on at a signal."""
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
                self.scheduler.end(f"{self.site.job}.{step}", self.environ)

    def _sweep(self) -> None:
        """Run stop.sh on every node in a step of its own. It is quick where a guard or undertaker has cleaned up."""
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
            return Outcome(self.code, self.roster.counts, REQUEUED, REQUEUED)
        # An mpirun that Slurm ends may exit with 0, and Slurm may have lost a silent node. Outside-in, Slurm may end
        # the program before it warns a guard. Elsewhere, a warning may end the program before anybody tells of it.
        warned = self.code in [128 + signal.Signals[f"SIG{name}"] for name in self.scheduler.WARNINGS]
        unsure = warned or self.plan.spec.start.mode == "outside-in" if self.code else self.silent
        if self.cut_off or self._is_over() or (unsure and not self.scheduler.runs(self.site.job, self.environ)):
            raise self._why_cut_off()
        if self.silent and (reason := self.reasons.silent(self.silent, self.code != 0 and not self.serving_ended)):
            raise reason
        if self.code == 0:
            if ended := self.scheduler.CLIENT_LINES.dead_daemons(self.roster.daemons):
                raise NodeError(f"mpirun's daemons ended while the job ran: {nodeset.folded(ended)}")
            transport.check(self.plan, self.roster)
        # after one rank failed, srun's exit code is that of the ranks that it ended
        code = self.code and (self.roster.first_bad or self.code)
        culprit, node_of_rank = self.roster.culprit, self.roster.node_of_rank
        return Outcome(code, self.roster.counts, "", "", culprit, node_of_rank, bool(self.roster.daemons), self.silent)

    def _not_ready(self, late: bool = False) -> Broken:
        roster, noise = copy.deepcopy(self.roster), list(self.noise)
        return Broken(partial(self.reasons.not_ready, roster, noise, self.cut_off, late))

    def _failure(self, roster: Roster) -> LaunchError:
        """Return the error of a node that reported one, or the end of the job if that is the cause."""
        return self._why_cut_off() if self._is_over() else self.reasons.failure(roster)

    def _why_cut_off(self) -> LaunchError:
        # Before `go`, a node's guard may not be there yet to tell of a warning.
        gone = self.reasons.unforeseen(self.silent, self.roster) if self.went else []
        return (gone and self.reasons.silent(gone, True)) or self.reasons.cut_off(self.noise, self.cut_off)

"""Run a job for the verbs: read its specification, plan it on nodes, launch it."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun.config.options import BY_NAME
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import JobSpec
from mnrun.model import Allocation, Fault, Outcome, Plan, Site
from mnrun.planning import layout, needs, plan, summary
from mnrun.planning.spec import build
from mnrun.planning.values import Surroundings
from mnrun.running import nodes
from mnrun.system import paths
from mnrun.system.clock import Clock
from mnrun.system.process import Starter
from mnrun.system.screen import Screen
from mnrun.system.signals import Signals, cleaning_up

if TYPE_CHECKING:
    from mnrun.config.layers import Settings
    from mnrun.config.load import Scope
    from mnrun.jobs.batch import Start
    from mnrun.jobs.job_dir import Records
    from mnrun.planning.show import Judgement
    from mnrun.running.outputs import Written
    from mnrun.schedulers.hosts.transport import Transport


@dataclass(frozen=True)
class View:
    """A plan for `mnrun plan` to show, with its site and the facts that a node reported."""

    plan: Plan
    site: Site
    judgement: Judgement


@dataclass(frozen=True)
class LaunchRequest:
    """A job on its nodes.

    `records` opens the records of the launch of that name. `starter` starts its commands. The signals in `forwarded` go
    on to its program. `clock` notes its moments.
    """

    spec: JobSpec
    allocation: Allocation
    site: Site
    clock: Clock
    records: Callable[[str], AbstractContextManager[Records]]
    starter: Starter | None = None
    forwarded: Collection[signal.Signals] = Signals.PROGRAMS


@cleaning_up()
def carry_out(command: tuple[str, ...], given: dict[str, object], shell: str = "", begin: float | None = None) -> int:
    """Carry out the job of a command line, in an allocation of its own if it has no nodes. Return its exit code.

    `begin` is the time from which its timeline counts, if that is not now.
    """
    clock = Clock(begin)
    spec = spec_of(command, dict(given), shell, live=True)
    if not nodes.allocates(spec):
        return _launch_here(spec, clock)
    _prove(spec)
    with nodes.allocated(spec, Screen(spec.quiet, spec.verbose)) as granted:
        os.environ.update(granted.variables)
        granted.code = _launch_here(spec_of(command, dict(given), shell, again=True), clock, allocated=True)
        return granted.code


def _prove(spec: JobSpec) -> None:
    """Refuse a job that cannot run, before it waits in a queue for its nodes."""
    from mnrun.jobs import job_dir
    from mnrun.running import outputs

    plan.make(spec, layout.lay_out(spec, None), "JOB")
    outputs.refuse_apart(outputs.live_files(spec))
    job_dir.writable(spec.job_dir)
    warn_of_files(spec)


def warn_of_files(spec: JobSpec) -> None:
    """Show a warning about each file of the job that this machine lacks. Raises UsageError for a mistyped image."""
    from mnrun.images import staged

    if not spec.force:
        staged.refuse_mistyped(spec.container.image_file, Path.home())
    for fault in needs.faults(spec, paths.fault):
        Screen().warn(fault.text)


def _faults(spec: JobSpec, site: Site, allocation: Allocation | None) -> list[Fault]:
    """Return the faults that run or submit would report, before they have nodes or after."""
    from mnrun.schedulers import BATCH

    found = [] if spec.hosts.names else needs.faults(spec, paths.fault, site.scheduler == "local")
    if allocation is None:
        scheduler = BATCH[site.scheduler]
        queue = scheduler.user_queue(os.environ, Path.home(), float(spec.slurm_poll))
        found += scheduler.doubts(spec, queue.nodes, os.environ)
    return found


def _launch_here(spec: JobSpec, clock: Clock, allocated: bool = False) -> int:
    """Carry `spec` out on the nodes that this process holds, and return its exit code.

    `allocated` says that mnrun got the nodes for this very job.
    """
    from mnrun.jobs import batch, job_dir

    screen = Screen(spec.quiet, spec.verbose)
    if nodes.in_job() and (start := batch.own(spec, os.environ)):
        return _launch_in_batch(spec, start, clock, screen)
    opened = partial(job_dir.opened, spec.job_dir, keep=spec.keep)
    if spec.hosts.names:
        with nodes.connected(spec, screen) as hosts:
            request = LaunchRequest(hosts.spec, hosts.allocation, hosts.site, clock, opened, hosts.transport.start)
            return _launch(request, screen, hosts.transport, _ineffective(spec)).code
    request = LaunchRequest(spec, *nodes.current(spec), clock, opened)
    return _launch(request, screen, notes=_ineffective(spec, allocated)).code


def _launch_in_batch(spec: JobSpec, start: Start, clock: Clock, screen: Screen) -> int:
    """Carry out a job in its batch script, and return its exit code. Other verbs read its records."""
    from mnrun.jobs import batch

    spec = batch.apart(spec, start)
    with batch.recorded(spec, start) as records:
        request = LaunchRequest(spec, *nodes.current(spec), clock, lambda _: nullcontext(records))
        if spec.as_given and start.is_script:
            request = replace(request, starter=batch.start, forwarded=batch.FORWARDED)
        start.outcome = _launch(request, screen, notes=() if spec.as_given else _ineffective(spec))
    return start.outcome.code


def _launch(
    request: LaunchRequest, screen: Screen, transport: Transport | None = None, notes: Sequence[str] = ()
) -> Outcome:
    from mnrun.jobs import job_dir
    from mnrun.running import execute, outputs, prepare, reasons

    allocation, site = request.allocation, request.site
    request.clock.mark("held")
    spec, verdict = resolved(request, transport)
    launch_plan = _plan(spec, allocation, site)
    lines = [verdict] if spec.verbose else []
    for note in (summary.of_plan(launch_plan), *launch_plan.notes, *notes, *lines):
        screen.say(note)
    begin = outputs.opened(launch_plan, site, os.environ, request.starter)
    with begin as (starter, written), request.records(launch_plan.job) as records:
        records.launched(launch_plan, site)
        timed = job_dir.timed(request.clock, launch_plan, records, screen)
        with prepare.doubting(launch_plan), timed, written.telling(screen) as lost:
            outcome = execute.execute(
                launch_plan, allocation, site, os.environ, records, screen, starter, request.forwarded
            )
            if outcome.why:  # somebody else has ended the program
                written.leave_out_ends()
        if outcome.silent and not outcome.code:
            reasons.refuse_lost(outcome, written.lines())
        prepare.doubt_fatal(spec, outcome.code, screen)
        if lost and not outcome.code:
            outcome = replace(outcome, code=Impossible.code, why=lost[0])
        if spec.keep:
            screen.say(f"kept: {records.path}, and {launch_plan.node_dir} on the nodes")
        if outcome.code and not outcome.why and not spec.program.prompt:
            try:
                outcome = _explained(outcome, written, spec, screen)
            except Exception as error:  # a reason that cannot be told must not change the code of the program
                screen.warn(f"the reason of this end is unknown: {error!r}")
        if spec.keep and not spec.as_given:  # a submitted job's record comes last, after its nodes are clean
            records.ended(outcome.code, outcome.why)
    return outcome


def resolved(request: LaunchRequest, transport: Transport | None) -> tuple[JobSpec, str]:
    """Return the job as it will run, and a line with the verdict on it. Raises Impossible.

    An inside-out job needs nothing of the node, so it asks nothing and runs as it does without an earlier answer.
    """
    spec = request.spec
    if not spec.program.direct or spec.start.mode != "outside-in":
        return spec, summary.of_verdict(None, "")
    from mnrun.running import probe

    node_probe = probe.Probe(spec, request.allocation, request.site, os.environ, transport)
    spec, verdict = probe.resolve(node_probe)
    return spec, summary.of_verdict(verdict, node_probe.origin)


def _explained(outcome: Outcome, written: Written, spec: JobSpec, screen: Screen) -> Outcome:
    """Show which rank failed, where and why, by the program's last lines. Return the outcome with that reason."""
    from mnrun.diagnosis.culprit import culprit
    from mnrun.running import outputs, reasons
    from mnrun.runtimes import RUNTIMES

    lines, split_output = written.lines(), spec.program.split_output
    if outcome.culprit is None:
        outcome = replace(outcome, culprit=culprit(lines, outcome.places))
    if outcome.culprit is not None and split_output:
        lines += outputs.lines_of(outcome.culprit, split_output)
    why, remedy = reasons.last_line(outcome, lines, RUNTIMES[spec.container.runtime].CONTAINED)
    screen.error("; ".join(filter(None, (why, remedy))))
    return replace(outcome, why=why)


def look(
    command: tuple[str, ...], given: dict[str, object], scope: Scope | None = None, *, again: bool = False
) -> View:
    """Return the plan of a run, and change nothing. `scope` and `again` are as for spec_of. Raises LaunchError."""
    from mnrun.planning.show import Judgement
    from mnrun.running import outputs, probe
    from mnrun.schedulers import BATCH

    spec = spec_of(command, given, scope=scope, again=again)
    outputs.refuse_apart(outputs.live_files(spec))
    allocation: Allocation | None
    with nodes.connected(spec, Screen(quiet=True), look=True) if spec.hosts.names else nullcontext() as hosts:
        if hosts is not None:
            spec, allocation, site, transport = hosts.spec, hosts.allocation, hosts.site, hosts.transport
        else:
            (allocation, site), transport = nodes.current_or_none(spec), None
        node_probe = probe.Probe(spec, allocation, site, os.environ, transport)
        spec, verdict = probe.resolve(node_probe, look=True)
        networks = node_probe.networks()
    launch_plan = _plan(spec if allocation else layout.share_gpus(spec), allocation, site)
    if allocation is None:
        launch_plan = replace(launch_plan, notes=(*launch_plan.notes, _of_no_nodes(spec)))
        site = BATCH[site.scheduler].with_gpus(site, launch_plan.spec, launch_plan.layout)
    faults = _faults(launch_plan.spec, site, allocation)
    if verdict and verdict.chosen.judged:
        faults = [fault for fault in faults if fault.code != "image"]  # a node has it, and has answered
    return View(launch_plan, site, Judgement(verdict, node_probe.origin, launch_plan.spec, networks, faults))


def _of_no_nodes(spec: JobSpec) -> str:
    """Return a note on a run where there are no nodes yet."""
    if nodes.allocates(spec):
        return f"no allocation here: run gets one with {nodes.request(spec)}"
    return "no allocation here, and --no-alloc: run refuses"


def spec_of(
    command: tuple[str, ...],
    given: dict[str, object],
    shell: str = "",
    *,
    batch: bool = False,
    live: bool = False,
    again: bool = False,
    scope: Scope | None = None,
) -> JobSpec:
    """Return the job of these options and all other sources of settings.

    `batch` is for sbatch, and `live` for a run that starts now. `again` is for a job that was read before: its warnings
    were shown, and its modules are loaded. `scope` is that of a verb which starts no job. Raises UsageError or
    Impossible.
    """
    from mnrun.config.load import as_given, gather

    if live or batch:
        nodes.refuse_copies(given)
    path = str(given.pop("job_file", "") or "")
    here, home = cwd(), str(Path.home())
    frozen = bool(given.pop("as_given", False))
    if frozen:
        sources = as_given(given, os.environ)
    else:
        sources = gather(given, path, os.environ, here, home, batch=batch, scope=scope)
    settings = sources.settings
    for warning in () if again else sources.warnings:
        Screen().warn(warning)
    if "module" in settings and not (batch or again or {"hosts", "hostfile"} & set(settings)):
        _load_modules(settings["module"].value, refuse=live)
    around = Surroundings(
        cwd=here,
        home=home,
        environ=os.environ,
        env_files=_env_files(settings),
        umask=_umask(),
        whys=sources.whys,
        job_file=path,
        hostfile=_read(str(settings["hostfile"].value), "--hostfile") if "hostfile" in settings else None,
        batch=batch,
        as_given=frozen,
        there=os.path.exists,
        link=paths.link,
    )
    if not shell:
        command = _command(command, sources.command, path, "script" in settings)
    return build(settings, command, around, shell)


def _command(typed: tuple[str, ...], of_file: tuple[str, ...], job_file: str, script: bool) -> tuple[str, ...]:
    """Return the command of a line and its job file. Words that begin with an option are appended to the file's.

    With a script, they are its arguments.
    """
    if not job_file or not typed or not typed[0].startswith("-"):
        return typed or of_file
    if not of_file and not script:
        problem = f"{job_file} has no command to append {typed[0]} to"
        raise UsageError(problem, f"write the program before it: mnrun {job_file} -- ./app {typed[0]}")
    return (*of_file, *typed)


def _env_files(settings: Settings) -> dict[str, str]:
    """Return path -> text of each --env-file."""
    files = settings["env_file"].value if "env_file" in settings else ()
    assert isinstance(files, tuple)
    return {path: _read(path) for path in files}


def _load_modules(names: object, refuse: bool) -> None:
    """Load the modules into the environment of this process. Raise Impossible, or warn, if that fails."""
    from mnrun.system import modules

    assert isinstance(names, tuple)
    try:
        loaded = dict(modules.load(names, os.environ))
    except Impossible as error:
        if refuse:
            raise
        Screen().warn(str(error))
        return
    os.environ.clear()
    os.environ.update(loaded)


def _ineffective(spec: JobSpec, allocated: bool = False) -> list[str]:
    """Return a note on options that have an effect only at submission.

    If mnrun `allocated` the nodes, the allocation's options did have an effect, and are left out.
    """
    from mnrun.running.outputs import live_files

    here = live_files(spec)
    given = [
        name
        for name in spec.origins
        if BY_NAME[name].batch and spec.sets(name) and not here.get(f"--{name}")
        if not (allocated and "shell" in BY_NAME[name].verbs)
    ]
    options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    why = "here, since the job runs already; use mnrun submit" if nodes.in_job() else "without Slurm"
    return [f"{options}: no effect {why}"] if given else []


def _umask() -> str:
    now = os.umask(0o077)
    os.umask(now)
    return f"{now:04o}"


def cwd() -> str:
    """Return $PWD, which keeps symbolic links, if it names the current directory. Else return the physical path."""
    logical = os.environ.get("PWD", "")
    try:
        physical = str(Path.cwd())
    except FileNotFoundError:
        raise UsageError("the current directory does not exist any more", "change to a directory that exists") from None
    return logical if os.path.isabs(logical) and os.path.realpath(logical) == physical else physical


def _read(path: str, option: str = "--env-file") -> str:
    try:
        return paths.text(path)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None


def _plan(spec: JobSpec, allocation: Allocation | None, site: Site) -> Plan:
    has_gpus = allocation is not None and any(node.gpus for node in allocation.nodes)
    if has_gpus and not spec.start.bind_to and not spec.resources.no_gpu:
        # by default, mpirun binds each rank to one core
        spec = replace(spec, start=replace(spec.start, bind_to="none"))
    made = plan.make(spec, layout.lay_out(spec, allocation), f"{site.job}-{token()}")
    if allocation is None or allocation.components == 1:
        return made
    note = f"job {allocation.job} is heterogeneous, and mnrun uses the first of its {allocation.components} components"
    return replace(made, notes=(*made.notes, note))


def token() -> str:
    """Return six random characters, which make a launch's name unique."""
    return "".join(random.SystemRandom().choices("abcdefghijkmnpqrstuvwxyz23456789", k=6))

"""Launch a job that was asked for, on the nodes of this process or in an allocation of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun import nodeset
from mnrun.config.options import BY_NAME
from mnrun.errors import Impossible, NotServing
from mnrun.jobspec import JobSpec
from mnrun.model import Allocation, Layout, Outcome, Plan, Site, job_name
from mnrun.planning import layout, needs, plan
from mnrun.running import nodes
from mnrun.running.nodes import Held
from mnrun.running.request import Request
from mnrun.schedulers import BATCH, common
from mnrun.system import paths
from mnrun.system.clock import Clock
from mnrun.system.screen import Screen
from mnrun.system.signals import Signals, cleaning_up

if TYPE_CHECKING:
    from mnrun.jobs.batch import Start
    from mnrun.jobs.job_dir import Records
    from mnrun.jobs.notices import Teller
    from mnrun.running.outputs import Written


Opened = Callable[[str], AbstractContextManager["Records"]]  # opens the records of the launch of that name


@cleaning_up()
def carry_out(request: Request, begin: float | None = None) -> int:
    """Carry out a job, in an allocation of its own if it has no nodes, and return its exit code. Its timeline counts
    from `begin`, or from now."""
    clock, teller = Clock(begin), _teller(request)
    with teller.telling() if teller else nullcontext():
        return _carried_out(request, clock, teller)


def _teller(request: Request) -> Teller | None:
    """Return what tells people of the launch, if anything does. Raises UsageError for a way that this machine lacks."""
    spec = request.spec
    if not spec.notify or spec.program.prompt:
        return None
    from mnrun.jobs import notices

    if spec.sets("notify") and not spec.as_given:
        notices.refuse_missing(spec.notify)
    return notices.Teller(spec.notify, spec.notify_on, Screen(spec.quiet).warn)


def _carried_out(request: Request, clock: Clock, teller: Teller | None) -> int:
    if not nodes.allocates(request):
        return _launch_here(request, clock, teller)
    if not nodes.asking(request):
        from mnrun.running import following

        return following.again(request) if request.spec.program.prompt else following.follow(request)
    _prove(request.spec)
    with nodes.allocated(request, Screen(request.spec.quiet, request.spec.verbose)) as granted:
        granted.code = _launch_here(request.granted(granted.variables), clock, teller, allocated=True)
        return granted.code


def _prove(spec: JobSpec) -> None:
    """Refuse a job that cannot run, before it waits in a queue for its nodes."""
    from mnrun.jobs import job_dir
    from mnrun.running import outputs

    plan.make(spec, layout.lay_out(spec, None), "JOB")
    outputs.refuse_parts(outputs.live_files(spec))
    job_dir.writable(spec.job_dir)
    warn_of_files(spec)


def warn_of_files(spec: JobSpec) -> None:
    """Show a warning about each file of the job that this machine lacks. Raises UsageError for a mistyped image."""
    from mnrun.images import staged

    if not spec.force:
        staged.refuse_mistyped(spec.container.image_file, Path.home())
    for fault in needs.faults(spec, paths.fault):
        Screen().warn(fault.text)


def _launch_here(request: Request, clock: Clock, teller: Teller | None, allocated: bool = False) -> int:
    """Carry out a job on the nodes of this process, which mnrun `allocated` for it or not. Return its exit code."""
    nodes.ask_ahead(request)
    from mnrun.jobs import batch, job_dir

    spec = request.spec
    screen = Screen(spec.quiet, spec.verbose)
    last = ""
    if request.in_job:
        start = batch.Start(request.scheduler.start(request.environ))
        if start.owned(spec):
            return _launch_in_batch(request, start, clock, screen, teller)
        last = batch.goes_on(spec, start)
    notes = _ineffective(request, allocated)
    with nodes.held(request, screen) as held:
        number = held.site.job if held.site.scheduler in BATCH else ""
        opened = partial(job_dir.opened, spec.job_dir, keep=spec.keep, last=last, number=number)
        return _launch(held, opened, clock, screen, teller, notes, own=allocated).code


def _launch_in_batch(request: Request, start: Start, clock: Clock, screen: Screen, teller: Teller | None) -> int:
    from mnrun.attach import user
    from mnrun.jobs import batch, dependencies

    spec = batch.with_own_folder(request.spec, start)
    with batch.recorded(spec, start) as records:
        if request.environ.get(common.AFTER) and spec.as_given:
            bases = (Path(spec.job_dir), *user.bases(None))
            queue = request.scheduler.user_queue(request.environ, Path.home(), float(spec.poll))
            dependencies.refuse(request.environ, bases, queue)
        held = nodes.current(request._replace(spec=spec))
        notes = () if spec.as_given else _ineffective(request)
        script = spec.as_given and start.is_script
        if teller:
            teller.job, teller.name = start.batch.id, start.batch.name
        code = _launch(held, lambda _: nullcontext(records), clock, screen, teller, notes, script).code
    return request.scheduler.CODES.get(code, code) if start.is_script else code


def _launch(
    held: Held,
    opened: Opened,
    clock: Clock,
    screen: Screen,
    teller: Teller | None,
    notes: Sequence[str],
    script: bool = False,
    own: bool = False,
) -> Outcome:
    """Launch a job, on nodes that mnrun got for it if `own`. Of a batch `script`, all signals go on to its program."""
    from mnrun.jobs import batch, job_dir
    from mnrun.running import execute, outputs, prepare, reasons

    site, environ = held.site, held.environ
    starter = held.transport.start if held.transport else batch.start if script else None
    forwarded = batch.FORWARDED if script else Signals.PROGRAMS
    clock.mark("held")
    ranks = layout.lay_out(held.spec, held.allocation)
    spec, verdict = resolved(held, ranks)
    launch_plan = make(spec, ranks, site, held.allocation)
    job = site.name if site.scheduler in BATCH else ""
    lines = [plan.reasons(launch_plan), verdict] if spec.verbose else []
    for note in (plan.summary(launch_plan, job), *launch_plan.notes, *notes, *lines):
        screen.say(note)
    begin = outputs.opened(launch_plan, site, environ, starter)
    reported = partial(job_dir.reported, clock, launch_plan, screen)
    with begin as (starter, written), opened(launch_plan.job) as records, reported(records):
        records.launched(launch_plan, site, own)
        if teller:
            teller.started(launch_plan.job, job_name(spec), nodeset.fold(launch_plan.layout.nodes))
        timed = records.timed(launch_plan.job, launch_plan.layout.nodes)
        with prepare.doubting(launch_plan), timed, _naming(launch_plan, written), written.telling(screen) as lost:
            launch = execute.Launch(launch_plan, site, environ, records, screen, starter, forwarded, around=held.around)
            outcome = launch.run()
            if held.transport and (told := held.transport.leave()):
                screen.warn(told)
            if outcome.why:  # somebody else has ended the program
                written.leave_out_ends()
            elif outcome.code:
                written.leave_out_named(outcome.node_of_rank)
        if (outcome.silent or outcome.doubted) and not outcome.code:
            reasons.refuse_lost(outcome, written.lines())
        if outcome.code == prepare.FATAL and prepare.doubt(spec):
            screen.say(prepare.IN_DOUBT)
        if lost and not outcome.code:
            outcome = replace(outcome, code=Impossible.code, why=lost[0], reason=Impossible.reason)
        if spec.keep:
            places = f"{launch_plan.node_dir} and /dev/shm/mnrun.{launch_plan.job} on the nodes"
            screen.say(f"kept: {records.path}, and {places}; mnrun clean --kept --nodes removes them there")
        if outcome.code and not outcome.why and not spec.program.prompt:
            try:
                in_pods = site.scheduler in BATCH and BATCH[site.scheduler].pod(environ) is not None
                outcome = _explained(outcome, written, spec, screen, in_pods)
            except Exception as error:  # a reason that cannot be told must not change the code of the program
                screen.warn(f"the reason of this end is unknown: {error!r}")
        records.outcome = outcome
    if teller:
        teller.outcome = outcome
    return outcome


@contextmanager
def _naming(launched: Plan, written: Written) -> Iterator[None]:
    """Enclose a launch. Add each node's last line to the error of a service that was not ready in time."""
    try:
        yield
    except NotServing as error:
        from mnrun.services import serving

        lines = list(filter(str.strip, written.lines()))
        counted = zip(launched.layout.nodes, launched.layout.ranks)
        nodes = dict(enumerate(node for node, count in counted for _ in range(count)))
        more = (serving.last_lines(nodes, launched.spec.program.label, lines),) if lines else ()
        raise NotServing(error.message, error.remedy, *more) from None


def resolved(held: Held, ranks: Layout) -> tuple[JobSpec, str]:
    """Return the job as it will run, and a line with the verdict on it. Raises Impossible. An inside-out job needs
    nothing of the node, and so asks nothing."""
    spec = held.spec
    if not spec.program.direct or spec.start.mode != "outside-in":
        return spec, "verdict: none, inside-out needs nothing of the node; `mnrun plan` asks the image"
    from mnrun.running import probe

    node_probe = probe.Probe(held, ranks.nodes)
    spec, verdict = probe.resolve(node_probe)
    known = f"{verdict.chosen}; {verdict.notes[0]}; " if verdict else "none, "
    return spec, f"verdict: {known}{node_probe.origin}"


def _explained(outcome: Outcome, written: Written, spec: JobSpec, screen: Screen, in_pods: bool) -> Outcome:
    from mnrun.diagnosis.culprit import culprit
    from mnrun.running import outputs, reasons
    from mnrun.runtimes import RUNTIMES

    lines, split_output = written.lines(), spec.program.split_output
    if outcome.culprit is None:
        outcome = replace(outcome, culprit=culprit(lines, outcome.node_of_rank))
    if outcome.culprit is not None and split_output:
        lines += outputs.lines_of(outcome.culprit, split_output)
    contained = in_pods or RUNTIMES[spec.container.runtime].CONTAINED
    why, remedy, reason = reasons.last_line(outcome, lines, contained)
    screen.error("; ".join(filter(None, (why, remedy))))
    return replace(outcome, why=why, reason=reason)


def _ineffective(request: Request, allocated: bool = False) -> list[str]:
    """Return a note on options that have an effect only at submission, or on nodes that mnrun `allocated`."""
    from mnrun.running.outputs import live_files

    spec = request.spec
    here = live_files(spec)
    # Some schedulers start `mnrun shell` once more, in a job that has these options already.
    got = allocated or (spec.program.prompt != "" and request.in_job and not nodes.asking(request))
    has_pods = request.scheduler.pod(request.environ) is not None  # made by its own option, too
    taken = {*nodes.OF_ALLOCATIONS, *((request.scheduler.OPTION.name,) if has_pods else ())}
    given = [
        name
        for name in spec.origins
        if BY_NAME[name].batch and spec.sets(name) and not here.get(f"--{name}")
        if not (got and name in taken)
        if name != "job_name" or request.in_job  # mnrun status shows it for any launch
    ]
    options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    title = request.scheduler.TITLE
    got_it = "on the job that mnrun got for this run; use mnrun submit"
    already = got_it if allocated else "here, since the job runs already; use mnrun submit"
    why = already if request.in_job else f"without {title}"
    return [f"{options}: no effect {why}"] if given else []


def make(spec: JobSpec, ranks: Layout, site: Site, allocation: Allocation | None) -> Plan:
    """Return the plan of a launch of its own name, with the note of its allocation."""
    made = plan.make(spec, ranks, f"{site.job}-{token()}", site.channels)
    return made._replace(notes=(*made.notes, allocation.note)) if allocation and allocation.note else made


def token() -> str:
    """Return six random characters, which make a launch's name unique."""
    return "".join(random.SystemRandom().choices("abcdefghijkmnpqrstuvwxyz23456789", k=6))

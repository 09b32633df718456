"""The common part of the verbs that run a job: its specification, its plan on nodes, its launch."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mnrun import nodeset
from mnrun.config.options import BY_NAME
from mnrun.errors import UsageError
from mnrun.jobspec import JobSpec
from mnrun.model import Allocation, Outcome, Plan, Site
from mnrun.planning import layout, plan, show, spec
from mnrun.planning.values import Surroundings
from mnrun.running import nodes
from mnrun.system.process import Signals, Starter
from mnrun.system.screen import Screen


@dataclass(frozen=True)
class Looked:
    """A plan for `mnrun plan` to show, with its site and the facts that a node reported."""

    plan: Plan
    site: Site
    judged: show.Judged


@dataclass(frozen=True)
class Launch:
    """A job on its nodes.

    `records` opens the records of the launch of that name. `starter` starts its commands. The signals in `forwarded` go
    on to its program.
    """

    job: JobSpec
    allocation: Allocation
    site: Site
    records: Callable[[str], AbstractContextManager[Any]]
    starter: Starter | None = None
    forwarded: Collection[signal.Signals] = Signals.PROGRAMS


def launch(job: JobSpec, asked_of_salloc: bool = False) -> int:
    """Carry `job` out on the nodes that this process holds, and return its exit code.

    `asked_of_salloc` says that salloc got the nodes for this very job.
    """
    from mnrun.running import job_dir

    screen = Screen(job.quiet, job.verbose)
    if job.as_given and "SLURM_JOB_ID" in os.environ:
        return _launch_in_batch(job, screen)
    opened = partial(job_dir.opened, job.job_dir, keep=job.keep)
    if job.hosts.names:
        with nodes.reached(job, screen) as held:
            launched = Launch(held.job, held.allocation, held.site, opened, held.way.start)
            return _launch(launched, screen, held.way, _ineffective(job)).code
    launched = Launch(job, *nodes.held(job), opened)
    return _launch(launched, screen, notes=_ineffective(job, asked_of_salloc)).code


def _launch_in_batch(job: JobSpec, screen: Screen) -> int:
    """Carry out a submitted job in its batch script, and return its exit code. Other verbs read its records."""
    from mnrun.running import batch

    start = batch.current(os.environ)
    job = batch.apart(job, start)
    with batch.recorded(job, start, os.environ) as records:
        launched = Launch(job, *nodes.held(job), lambda _: nullcontext(records))
        if start.is_script:
            launched = replace(launched, starter=batch.start, forwarded=batch.FORWARDED)
        start.outcome = _launch(launched, screen)
    return start.outcome.code


def _launch(launched: Launch, screen: Screen, way: Any = None, notes: Sequence[str] = ()) -> Outcome:
    from mnrun.running import execute, outputs, probe, reasons

    job, allocation, site = launched.job, launched.allocation, launched.site
    asker = probe.Asker(job, allocation, site, os.environ, way)
    job, verdict = probe.judged(asker)
    made = _plan(job, allocation, site)
    told = [show.verdict_line(verdict, asker.origin)] if job.verbose else []
    for note in (*_summary(made, allocation), *notes, *told):
        screen.say(note)
    begin = outputs.opened(made, site, os.environ, launched.starter)
    with begin as (starter, files), launched.records(made.job) as records:
        heard = outputs.Heard(files)
        outcome = execute.execute(made, allocation, site, os.environ, records, screen, starter, launched.forwarded)
        if job.keep:
            screen.say(f"kept: {records.path}, and {made.node_dir} on the nodes")
        if outcome.code and not outcome.why and not job.program.shell:
            why, remedy = reasons.told(outcome, heard.lines(made.spec.program.split_output, outcome.culprit))
            screen.error("; ".join(filter(None, (why, remedy))))
            outcome = replace(outcome, why=why)
    return outcome


def look(command: tuple[str, ...], given: dict[str, object]) -> Looked:
    """Return the plan of a run, and change nothing. Raises LaunchError."""
    from mnrun.running import probe
    from mnrun.schedulers.slurm import steps

    job = spec_of(command, given)
    allocation: Allocation | None
    with nodes.reached(job, Screen(quiet=True), look=True) if job.hosts.names else nullcontext() as held:
        if held is not None:
            job, allocation, site, way = held.job, held.allocation, held.site, held.way
        else:
            (allocation, site), way = nodes.held_or_paper(job), None
        asker = probe.Asker(job, allocation, site, os.environ, way)
        job, verdict = probe.judged(asker, look=True)
        networks = asker.networks()
    made = _plan(job if allocation else layout.share_gpus(job), allocation, site)
    if allocation is None:
        site = steps.on_paper(site, made.spec, made.layout)
    return Looked(made, site, show.Judged(verdict, asker.origin, made.spec, networks))


def spec_of(
    command: tuple[str, ...], given: dict[str, object], shell: str = "", *, batch: bool = False, live: bool = False
) -> JobSpec:
    """Return the job of these options and all other sources of settings.

    `batch` is for sbatch, and `live` for a run that starts now. Raises UsageError or Impossible.
    """
    from mnrun.config.load import as_given, gather

    path = str(given.pop("job_file", "") or "")
    here, home = cwd(), str(Path.home())
    frozen = bool(given.pop("as_given", False))
    found = as_given(given, os.environ) if frozen else gather(given, path, os.environ, here, home, batch=batch)
    files = found.settings["env_file"].value if "env_file" in found.settings else ()
    assert isinstance(files, tuple)
    for warning in found.warnings:
        Screen().warn(warning)
    if live and "module" in found.settings and not {"hosts", "hostfile"} & set(found.settings):
        _load_modules(found.settings["module"].value)
    around = Surroundings(
        cwd=here,
        home=home,
        environ=os.environ,
        env_files={path: _read(path) for path in files},
        umask=_umask(),
        whys=found.whys,
        job_file=path,
        hostfile=_read(str(found.settings["hostfile"].value), "--hostfile") if "hostfile" in found.settings else None,
        batch=batch,
        as_given=frozen,
        there=os.path.exists,
    )
    return spec.build(found.settings, command or ("" if shell else found.command), around, shell)


def _load_modules(names: object) -> None:
    """Load the modules into the environment of this process."""
    from mnrun.system import modules

    assert isinstance(names, tuple)
    loaded = dict(modules.load(names, os.environ))
    os.environ.clear()
    os.environ.update(loaded)


def _ineffective(job: JobSpec, asked_of_salloc: bool = False) -> list[str]:
    """Return a note on options that have an effect only at submission, except for options that salloc got."""
    from mnrun.running.outputs import asked_here

    here = asked_here(job)
    given = [
        name
        for name in job.origins
        if BY_NAME[name].batch and job.own(name) and not here.get(f"--{name}")
        if not (asked_of_salloc and "shell" in BY_NAME[name].verbs)
    ]
    options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    return [f"{options}: no effect here, since the job runs already; use mnrun submit"] if given else []


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
        raise UsageError("the current directory is gone", "go to one that is there") from None
    return logical if os.path.isabs(logical) and os.path.realpath(logical) == physical else physical


def _read(path: str, option: str = "--env-file") -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None


def _plan(job: JobSpec, allocation: Allocation | None, site: Site) -> Plan:
    if (
        not job.start.bind_to
        and not job.resources.no_gpu
        and allocation is not None
        and any(node.gpus for node in allocation.nodes)
    ):
        job = replace(job, start=replace(job.start, bind_to="none"))  # by default, mpirun binds each rank to one core
    return plan.make(job, layout.lay_out(job, allocation), f"{site.job}-{token()}")


def own_call() -> tuple[str, ...]:
    """Return the words that start this mnrun again."""
    typed = shutil.which(sys.argv[0]) or sys.argv[0]
    if os.path.basename(typed) == "__main__.py":  # python -m mnrun
        return (sys.executable, "-m", "mnrun")
    return (os.path.abspath(typed),)


def token() -> str:
    """Return six random characters, which make a launch's name unique."""
    return "".join(secrets.choice("abcdefghijkmnpqrstuvwxyz23456789") for _ in range(6))


def _summary(made: Plan, allocation: Allocation | None) -> list[str]:
    """Return the chosen layout with its reasons, in a line or two."""
    chosen = made.layout
    ranks = "-".join(str(n) for n in sorted(set(chosen.ranks)))
    nodes = nodeset.fold(chosen.nodes) if chosen.nodes else "no nodes yet"
    how = f"{made.spec.start.mode}, {made.spec.container.runtime}, ranks by {made.starter}"
    size = f"{nodeset.counted(chosen.nnodes, 'node')} x {nodeset.counted(ranks, 'rank')}"
    return [
        f"{size} ({chosen.why_ranks}) on {nodes} ({chosen.why_nodes}); {how}",
        *made.notes,
    ]

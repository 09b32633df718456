"""What the verbs that run a job share: its specification, its plan on nodes, its launch."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mnrun import nodeset
from mnrun.config.options import BY_NAME
from mnrun.errors import UsageError
from mnrun.model import Allocation, JobSpec, Plan, Site
from mnrun.planning import layout, plan, show, spec
from mnrun.running import nodes
from mnrun.system.screen import Screen


@dataclass(frozen=True)
class Looked:
    """A plan as `mnrun plan` shows it: where it would run, and what a node says of it."""

    plan: Plan
    site: Site
    judged: show.Judged


def launch(job: JobSpec, asked_of_salloc: bool = False) -> int:
    """Carry `job` out on the nodes that we hold, or, `asked_of_salloc`, that we have got for it; its exit code."""
    screen = Screen(job.quiet, job.verbose)
    if job.hosts:
        with nodes.reached(job, screen) as held:
            return _launch(held.job, held.allocation, held.site, screen, held.way, _ineffective(job))
    allocation, site = nodes.held(job)
    return _launch(job, allocation, site, screen, notes=_ineffective(job, asked_of_salloc))


def _launch(
    job: JobSpec, allocation: Allocation, site: Site, screen: Screen, way: Any = None, notes: Sequence[str] = ()
) -> int:
    from mnrun.running import execute, job_dir, outputs, probe

    asker = probe.Asker(job, allocation, site, os.environ, way)
    job, verdict = probe.judged(asker)
    made = _plan(job, allocation, site)
    told = [show.verdict_line(verdict, asker.origin)] if job.verbose else []
    for note in (*_summary(made, allocation), *notes, *told):
        screen.say(note)
    begin = outputs.opened(made, site, os.environ, way and way.start)
    with begin as starter, job_dir.opened(job.job_dir, made.job, job.keep) as records:
        outcome = execute.execute(made, allocation, site, os.environ, records, screen, starter)
        if job.keep:
            screen.say(f"kept: {records.path}, and {made.node_dir} on the nodes")
    return outcome.code


def look(command: tuple[str, ...], given: dict[str, object]) -> Looked:
    """Return the plan of a run, changing nothing. Raises LaunchError."""
    from mnrun.running import probe
    from mnrun.schedulers.slurm import steps

    job = spec_of(command, given)
    allocation: Allocation | None
    if job.hosts:
        with nodes.reached(job, Screen(quiet=True), look=True) as held:
            job, allocation, site = held.job, held.allocation, held.site
            asker = probe.Asker(job, allocation, site, os.environ, held.way)
            job, verdict = probe.judged(asker, look=True)
            networks = asker.networks()
    else:
        allocation, site = nodes.held_or_paper(job)
        asker = probe.Asker(job, allocation, site, os.environ, None)
        job, verdict = probe.judged(asker, look=True)
        networks = asker.networks()
    made = _plan(job if allocation else layout.share_gpus(job), allocation, site)
    if allocation is None:
        site = steps.on_paper(site, made.spec, made.layout)
    return Looked(made, site, show.Judged(verdict, asker.origin, made.spec, networks))


def spec_of(
    command: tuple[str, ...], given: dict[str, object], shell: str = "", *, batch: bool = False, live: bool = False
) -> JobSpec:
    """The job of these options and all that is said elsewhere; `batch`: for sbatch, `live`: about to be run here.

    Raises UsageError or Impossible.
    """
    from mnrun.config.load import gather

    path = str(given.pop("job_file", "") or "")
    here, home = cwd(), str(Path.home())
    found = gather(given, path, os.environ, here, home, batch=batch)
    files = found.settings["env_file"].value if "env_file" in found.settings else ()
    assert isinstance(files, tuple)
    for warning in found.warnings:
        Screen().warn(warning)
    if live and "module" in found.settings and not {"hosts", "hostfile"} & set(found.settings):
        _load_modules(found.settings["module"].value)
    around = spec.Surroundings(
        cwd=here,
        home=home,
        environ=os.environ,
        env_files={path: _read(path) for path in files},
        umask=_umask(),
        whys=found.whys,
        learned=found.learned,
        job_file=path,
        hostfile=_read(str(found.settings["hostfile"].value), "--hostfile") if "hostfile" in found.settings else None,
        batch=batch,
        there=os.path.exists,
    )
    return spec.build(found.settings, command or ("" if shell else found.command), around, shell)


def _load_modules(names: object) -> None:
    """From here on we are where they are loaded."""
    from mnrun.system import modules

    assert isinstance(names, tuple)
    loaded = dict(modules.load(names, os.environ))
    os.environ.clear()
    os.environ.update(loaded)


def _ineffective(job: JobSpec, asked_of_salloc: bool = False) -> list[str]:
    """A note on what only a job that is still to be submitted can be asked for; what salloc was has its effect."""
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
    """$PWD, which keeps the links that a person walked, where it names the current directory."""
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

    if not job.bind_to and not job.no_gpu and allocation is not None and any(node.gpus for node in allocation.nodes):
        job = replace(job, bind_to="none")  # mpirun's own default binds each rank to one core
    job = job if allocation else plan.on_paper(job)
    return plan.make(job, layout.lay_out(job, allocation), f"{site.job}-{token()}")


def token() -> str:
    """What makes a name one launch's own."""
    return "".join(secrets.choice("abcdefghijkmnpqrstuvwxyz23456789") for _ in range(6))


def _summary(made: Plan, allocation: Allocation | None) -> list[str]:
    """What was chosen, and why, in a line or two."""
    chosen = made.layout
    ranks = "-".join(str(n) for n in sorted(set(chosen.ranks)))
    nodes = nodeset.fold(chosen.nodes) if chosen.nodes else "no nodes yet"
    how = f"{made.spec.mode}, {made.spec.runtime}, ranks by {made.starter}"
    return [
        f"{chosen.nnodes} nodes x {ranks} ranks ({chosen.why_ranks}) on {nodes} ({chosen.why_nodes}); {how}",
        *made.notes,
    ]

"""Read what is asked for: a command line, its files and its environment become the request of a job.

The environment is a value. Modules give a new one, and so does an allocation. That of this process stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mnrun.config import load
from mnrun.config.layers import Settings
from mnrun.config.load import JobSettings, Scope
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import JobSpec
from mnrun.planning.spec import build
from mnrun.planning.values import Surroundings
from mnrun.record import Record
from mnrun.running import nodes
from mnrun.schedulers import BatchScheduler
from mnrun.system import paths
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.running.beside import Beside


class Request(Record):
    """A job that is asked for, its scheduler, and the environment of its launch. `again` makes the job of the same
    sources in another environment, or for a batch script."""

    spec: JobSpec
    scheduler: BatchScheduler
    environ: Mapping[str, str]
    again: Callable[[Mapping[str, str], bool], JobSpec]
    settings: Settings  # of which the job is made
    cwd: str
    beside: Beside | None = None  # the node of a running job, on which it starts

    @property
    def in_job(self) -> bool:
        return self.scheduler.job(self.environ) != ""

    def granted(self, variables: Mapping[str, str]) -> Request:
        """Return the request on the nodes that were granted with these variables: it asks for nodes no more."""
        environ = {**self.environ, **variables}
        return self._replace(spec=self.again(environ, False), environ=environ)

    def queued(self) -> Request:
        """Return the request as a batch script has it. It is no array: one run is one job."""
        spec = self.again(self.environ, True)
        options = {name: value for name, value in spec.batch.options.items() if name != "array"}
        return self._replace(spec=spec._replace(batch=spec.batch._replace(options=options)))


def read(
    command: tuple[str, ...],
    options: Mapping[str, object],
    shell: str = "",
    *,
    batch: bool = False,
    live: bool = False,
    scope: Scope | None = None,
    beside: Beside | None = None,
    recorded: Settings | None = None,
) -> Request:
    """Return the request of these options and all other sources of settings. Raises UsageError or Impossible.

    `batch` is for a batch script, `live` for a run that starts now, and `scope` for a verb which starts no job.
    `recorded` are the settings of an earlier job, which these options change.
    """
    given, environ = dict(options), dict(os.environ)
    path = str(given.pop("job_file", "") or "")
    here, home, frozen = cwd(), str(Path.home()), bool(given.pop("as_given", False))
    sources = None if frozen else _sources(given, path, environ, here, home, beside)

    def settle(environ: Mapping[str, str], batch: bool) -> JobSettings:
        if sources is None:
            return load.as_given(given, environ)
        return load.gather(sources, environ, batch=batch, scope=scope, recorded=recorded)

    settled = settle(environ, batch)
    settings, scheduler = settled.settings, settled.scheduler
    if live or batch:
        nodes.refuse_copies(given, scheduler, environ)
    for warning in settled.warnings:
        Screen().warn(warning)
    in_job = not (batch or beside) and scheduler.job(environ) != ""
    if "module" in settings and not batch and (in_job or not {"hosts", "hostfile"} & set(settings)):
        environ = _with_modules(settings["module"].value, environ, refuse=live)
    around = _around(settled, path, environ, here, home, frozen)._replace(in_job=in_job)

    def job(settled: JobSettings, environ: Mapping[str, str], batch: bool) -> JobSpec:
        elsewhere = scope is not None or _elsewhere(settled.settings)
        pod = None if elsewhere else scheduler.pod(environ)
        here = around._replace(environ=environ, batch=batch, whys=settled.whys, pod=pod)
        return build(settled.settings, command if shell else _command(command, settled, path), here, shell)

    def again(environ: Mapping[str, str], batch: bool) -> JobSpec:
        return job(settle(environ, batch), environ, batch)

    spec = job(settled, environ, batch)
    nodes.refuse_reach(spec, scheduler)
    return Request(spec, scheduler, environ, again, settings, here, beside)


def _around(
    settled: JobSettings, path: str, environ: Mapping[str, str], here: str, home: str, frozen: bool
) -> Surroundings:
    """Return what a job finds around it. `path` is that of its file. Raises UsageError."""
    settings = settled.settings
    return Surroundings(
        cwd=here,
        home=home,
        environ=environ,
        env_files=_env_files(settings),
        umask=_umask(),
        site=settled.own,
        job_file=path,
        hostfile=_text(str(settings["hostfile"].value), "--hostfile") if "hostfile" in settings else None,
        as_given=frozen,
        there=os.path.exists,
        link=paths.link,
    )


def _sources(
    given: dict[str, object], path: str, environ: Mapping[str, str], here: str, home: str, beside: Beside | None
) -> load.Sources:
    service = given.pop("service", None)
    if beside is None:
        return load.read(given, path, environ, here, home, service)
    return load.read({**given, "hosts": beside.node}, path, environ, here, home, service, beside.options)


def _env_files(settings: Settings) -> dict[str, str]:
    """Return path -> text of each file of --env-file."""
    files = settings["env_file"].value if "env_file" in settings else ()
    assert isinstance(files, tuple)
    return {path: _text(path, "--env-file") for path in files}


def _elsewhere(settings: Settings) -> bool:
    """Return whether the job runs on named hosts, or on this machine."""
    return bool({"hosts", "hostfile"} & set(settings) or ("local" in settings and settings["local"].value))


def _command(typed: tuple[str, ...], settled: JobSettings, job_file: str) -> tuple[str, ...]:
    """Return the command of a line and its job file. Words that begin with an option are appended to the file's
    command, and are arguments of its script. Those of a service are before all others."""
    of_file = settled.command
    if settled.service:
        from mnrun.services import recipes

        return recipes.joined(settled.service, typed or of_file)
    if not job_file or not typed or not typed[0].startswith("-"):
        return typed or of_file
    if not of_file and "script" not in settled.settings:
        problem = f"{job_file} has no command to append {typed[0]} to"
        raise UsageError(problem, f"write the program before it: mnrun {job_file} -- ./app {typed[0]}")
    return (*of_file, *typed)


def _with_modules(names: object, environ: dict[str, str], refuse: bool) -> dict[str, str]:
    """Return the environment with the modules loaded. If that fails, raise Impossible, or else warn."""
    from mnrun.system import modules

    assert isinstance(names, tuple)
    try:
        return dict(modules.load(names, environ))
    except Impossible as error:
        if refuse:
            raise
        Screen().warn(str(error))
        return environ


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


def _text(path: str, option: str) -> str:
    try:
        return paths.text(path)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None

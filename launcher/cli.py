"""The command line: `mnrun [VERB] [OPTIONS] [--] COMMAND…`. A verb counts only as the very first word.

Prints, and turns a LaunchError into one line and an exit code. What a verb does is elsewhere.
"""

from __future__ import annotations

import importlib
import io
import os
import secrets
import sys
import traceback
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from . import __version__, cli_nodes, layout, nodeset, spec
from .errors import BUG, LaunchError, UsageError
from .model import Allocation, JobSpec, Plan, Site
from .options import BY_NAME, FOREIGN, OPTIONS, Option
from .progress import Screen

# verb -> the module that has it; only that of the verb which was asked for is read
VERBS = {
    "run": "cli",
    "plan": "cli",
    "submit": "cli_submit",
    "init": "cli_setup",
    "profile": "cli_setup",
    "completion": "cli_setup",
    "status": "cli_follow",
    "logs": "cli_follow",
    "wait": "cli_follow",
    "cancel": "cli_follow",
    "nodes": "cli_follow",
    "clean": "cli_clean",
    "shell": "cli_shell",
    "check": "cli_check",
}
FORMATS = ("steps", "sbatch", "json")
COMMAND = {
    "ignore_unknown_options": False,
    "allow_interspersed_args": False,
    "help_option_names": ["-h", "--help"],
}


class DefaultVerb(click.Group):
    """`mnrun OPTIONS COMMAND` is `mnrun run OPTIONS COMMAND`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        found: click.Command = getattr(importlib.import_module(f".{VERBS[name]}", __package__), name)
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = super().shell_complete(ctx, incomplete)
        run = self.get_command(ctx, "run")
        assert run is not None
        seen = {item.value for item in found}
        also = run.shell_complete(click.Context(run, parent=ctx, info_name="run"), incomplete)
        return [*found, *(item for item in also if item.value not in seen)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            args = ["--help"]
        if args[0] not in (*VERBS, "-h", "--help", "-V", "--version"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


class JobVerb(click.Command):
    """A verb whose words end at the first that is no option; foreign spellings are answered by name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell asks how the words might go on
            return super().parse_args(ctx, args)
        ours = [p for p in self.params if isinstance(p, click.Option) and not p.is_flag]
        valued = {flag for option in ours for flag in option.opts}
        end = refuse_foreign(args, valued)
        file = ""
        if end < len(args) and args[end].endswith(".toml"):
            file = args[end]
            args = [*args[:end], *args[end + 1 :]]
            refuse_foreign(args, valued)
        rest = super().parse_args(ctx, args)
        ctx.params["job_file"] = file
        return rest


def refuse_foreign(args: Sequence[str], valued: Container[str]) -> int:
    """Where the options end: at the first word that is none. The flags in `valued` take the word after them.

    Raises UsageError at another tool's spelling among them.
    """
    words = iter(range(len(args)))
    for place in words:
        word = args[place]
        following = args[place + 1] if place + 1 < len(args) else ""
        if word == "--" or not word.startswith("-"):
            return place
        name = word.partition("=")[0]
        if name in FOREIGN:
            raise UsageError(f"{name} is another tool's option", f"here it is {FOREIGN[name]}")
        if word == "-v" and ":" in following:
            raise UsageError(f"-v is --verbose here, not docker's volume {following}", f"write --bind {following}")
        if word.startswith("-e") and "=" in (following if word == "-e" else word):
            meant = word[2:] or following or "NAME=VALUE"
            raise UsageError("-e is another tool's option", f"for a variable write -x {meant}")
        if word in valued:
            next(words, None)
    return len(args)


def job_options(verb: Any) -> Any:
    """The whole table of options on a click command."""
    for option in reversed(OPTIONS):
        verb = click.option(*_flags(option), option.name, **_click(option))(verb)
    files = click.Path()  # so that shells complete them
    return click.argument(
        "command", nargs=-1, type=click.UNPROCESSED, shell_complete=lambda *words: files.shell_complete(*words)
    )(verb)


def _flags(option: Option) -> tuple[str, ...]:
    """With --no-X for what a job file or a site may say of every batch job."""
    return tuple(f"{flag}/--no-{flag[2:]}" if option.batch and option.kind == "flag" else flag for flag in option.flags)


def _click(option: Option) -> dict[str, Any]:
    shared: dict[str, Any] = {"help": _help(option)}
    if option.kind == "flag":
        return {**shared, "is_flag": True, "default": None}
    metavar = "|".join(option.choices) or option.metavar or option.kind.upper()
    return {
        **shared,
        "type": str,
        "multiple": option.repeats,
        "metavar": metavar,
        "shell_complete": lambda ctx, param, incomplete: _completed(option, incomplete),
    }


def _completed(option: Option, incomplete: str) -> list[CompletionItem]:
    """The values that are as far as `incomplete`: choices, or the shell's own files and directories."""
    kind = "dir" if option.metavar == "DIR" else "file" if option.metavar.startswith(("FILE", "REF", "SRC")) else ""
    if kind:
        return [CompletionItem(incomplete, type=kind)]
    return [CompletionItem(choice) for choice in option.choices if choice.startswith(incomplete)]


def _help(option: Option) -> str:
    return option.help + (f"  [default: {option.default}]" if option.default else "")


@click.group(cls=DefaultVerb, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="mnrun", message="%(prog)s %(version)s")
def main() -> None:
    """Run one job on many nodes, in containers.

    \b
    mnrun [run] [OPTIONS] COMMAND…    run it on the nodes of the Slurm job that you are in
    mnrun [run] --hosts LIST …        or on hosts that you can log in to
    mnrun plan [OPTIONS] COMMAND…     show what run would do
    mnrun submit [OPTIONS] COMMAND…   or JOB.toml, as everywhere: hand it in
    mnrun status | logs | wait | cancel ID…   follow and end submitted jobs
    mnrun shell [OPTIONS]             a prompt in the job's container; allocates where nobody has
    mnrun check [OPTIONS]             what the nodes have for this, and what is missing

    Options of a job end at the first word that is none; what follows is the program's own.
    """


@click.command(cls=JobVerb, context_settings=COMMAND)
@job_options
def run(command: tuple[str, ...], **given: object) -> None:
    """Run COMMAND on every rank, and leave with its exit code."""
    sys.exit(launch(spec_of(command, given, live=True)))


def launch(job: JobSpec, asked_of_salloc: bool = False) -> int:
    """Carry `job` out on the nodes that we hold, or, `asked_of_salloc`, that we have got for it; its exit code."""
    screen = Screen(job.quiet, job.verbose)
    if job.hosts:
        with cli_nodes.reached(job, screen) as held:
            return _launch(held.job, held.allocation, held.site, screen, held.way, _ineffective(job))
    allocation, site = cli_nodes.held(job)
    return _launch(job, allocation, site, screen, notes=_ineffective(job, asked_of_salloc))


def _launch(
    job: JobSpec, allocation: Allocation, site: Site, screen: Screen, way: Any = None, notes: Sequence[str] = ()
) -> int:
    from . import asking, execute, job_dir, outputs, show

    asker = asking.Asker(job, allocation, site, os.environ, way)
    job, verdict = asking.judged(asker)
    plan = _plan(job, allocation, site)
    told = [show.verdict_line(verdict, asker.origin)] if job.verbose else []
    for note in (*_summary(plan, allocation), *notes, *told):
        screen.say(note)
    begin = outputs.opened(plan, site, os.environ, way and way.start)
    with begin as starter, job_dir.opened(job.job_dir, plan.job, job.keep) as records:
        outcome = execute.execute(plan, allocation, site, os.environ, records, screen, starter)
        if job.keep:
            screen.say(f"kept: {records.path}, and {plan.node_dir} on the nodes")
    return outcome.code


@click.command(cls=JobVerb, context_settings=COMMAND)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    metavar="|".join(FORMATS),
    help="How to show it.  [default: steps]",
)
@job_options
def plan(command: tuple[str, ...], form: str, **given: object) -> None:
    """Show what run would do: every step, every value and where it came from."""
    from . import asking, cli_submit, show
    from .schedulers import slurm

    if form == "sbatch":
        click.echo(cli_submit.written(command, given)[1].text, nl=False)
        return
    job = spec_of(command, given)
    if job.hosts:
        with cli_nodes.reached(job, Screen(quiet=True), look=True) as held:
            job, allocation, site = held.job, held.allocation, held.site
            asker = asking.Asker(job, allocation, site, os.environ, held.way)
            job, verdict = asking.judged(asker, look=True)
            networks = asker.networks()
    else:
        allocation, site = cli_nodes.held_or_paper(job)
        asker = asking.Asker(job, allocation, site, os.environ, None)
        job, verdict = asking.judged(asker, look=True)
        networks = asker.networks()
    made = _plan(job if allocation else layout.share_gpus(job), allocation, site)
    if allocation is None:
        site = slurm.on_paper(site, made.spec, made.layout)
    as_text = show.as_json if form == "json" else show.as_steps
    click.echo(as_text(made, site, show.Judged(verdict, asker.origin, made.spec, networks)), nl=False)


def spec_of(
    command: tuple[str, ...], given: dict[str, object], shell: str = "", *, batch: bool = False, live: bool = False
) -> JobSpec:
    """The job of these options and all that is said elsewhere; `batch`: for sbatch, `live`: about to be run here.

    Raises UsageError or Impossible.
    """
    from .gather import gather

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
    from . import modules

    assert isinstance(names, tuple)
    loaded = dict(modules.load(names, os.environ))
    os.environ.clear()
    os.environ.update(loaded)


def _ineffective(job: JobSpec, asked_of_salloc: bool = False) -> list[str]:
    """A note on what only a job that is still to be submitted can be asked for; what salloc was has its effect."""
    from .outputs import asked_here

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
    from . import plan as planner

    if not job.bind_to and not job.no_gpu and allocation is not None and any(node.gpus for node in allocation.nodes):
        job = replace(job, bind_to="none")  # mpirun's own default binds each rank to one core
    job = job if allocation else planner.on_paper(job)
    return planner.make(job, layout.lay_out(job, allocation), f"{site.job}-{token()}")


def token() -> str:
    """What makes a name one launch's own."""
    return "".join(secrets.choice("abcdefghijkmnpqrstuvwxyz23456789") for _ in range(6))


def _summary(plan: Plan, allocation: Allocation | None) -> list[str]:
    """What was chosen, and why, in a line or two."""
    chosen = plan.layout
    ranks = "-".join(str(n) for n in sorted(set(chosen.ranks)))
    nodes = nodeset.fold(chosen.nodes) if chosen.nodes else "no nodes yet"
    how = f"{plan.spec.mode}, {plan.spec.runtime}, ranks by {plan.starter}"
    return [
        f"{chosen.nnodes} nodes x {ranks} ranks ({chosen.why_ranks}) on {nodes} ({chosen.why_nodes}); {how}",
        *plan.notes,
    ]


def entry() -> NoReturn:
    """The console script: one line for what we foresaw, a report for what we did not."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a word that the terminal cannot show is no error
    try:
        main.main(standalone_mode=False)
        code = 0
    except LaunchError as error:
        code = _complain(str(error), error.code)
    except click.ClickException as error:
        code = _complain(error.format_message(), UsageError.code)
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        code = 141
    except Exception:
        code = _complain("a bug of mnrun's own; please report what stands above", BUG, traceback.format_exc())
    if sys.stdout is not None:
        sys.stdout.flush()
    sys.exit(code)


def _complain(message: str, code: int, before: str = "") -> int:
    print(f"{before}mnrun: {message}", file=sys.stderr, flush=True)
    return code


__all__ = ["entry", "main"]

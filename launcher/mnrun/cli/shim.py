"""`mnrun shim`: stand in front of a scheduler's programs, and run the lines for another tool's containers."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import click

from mnrun.errors import Impossible, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from mnrun.jobs.launches import LaunchRecord
    from mnrun.schedulers import Front
    from mnrun.schedulers.vocabulary import Shimmed

MARK = "mnrun_program() { exec "  # the begin of the second line of a front
_INTO = 'cd -- "$1" && shift && exec "$@"'


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--directory", metavar="DIR", default="~/.mnrun/shim", help="Directory for the programs in front.")
@click.option("--show", is_flag=True, help="Show what a line becomes, and run nothing.")
def shim(command: tuple[str, ...], directory: str, show: bool) -> None:
    """Run COMMAND with srun and sbatch in front of PATH that know pyxis's options, by mnrun.

    They hand each line without a container to Slurm's own program. Without COMMAND, print the line for
    `eval "$(mnrun shim)"`. A COMMAND that is srun or sbatch itself is run in that way.
    """
    from pathlib import Path
    from shlex import quote

    from mnrun.schedulers import FRONTS, KNOWN

    first = os.path.basename(command[0]) if command else ""
    environ = _behind_fronts(os.environ)
    for scheduler, front in FRONTS.items():
        if first in front.PROGRAMS:
            act = dict(zip(front.PROGRAMS, (_step, _script, _containers)))[first]
            words = act(front, KNOWN[scheduler].job(environ), command[1:], environ, show)
            if words is None:
                _become(command[1:], first, environ["PATH"], show)
            _run(words, environ, show)
    folder = Path(directory).expanduser().absolute()
    for front in FRONTS.values():
        _write(folder, front)
    if command:
        os.environ["PATH"] = f"{folder}:{environ['PATH']}"
        _become(command[1:], command[0], os.environ["PATH"], show)
    click.echo(f"export PATH={quote(str(folder))}:$PATH")


def _write(folder: Path, front: Front) -> None:
    """Write the programs that stand in front. Another mnrun may read or write them at the same time."""
    from shlex import join

    from mnrun.running import submission
    from mnrun.system import paths

    text = f'#!/bin/sh\n{MARK}{join(submission.own_call())} "$@"; }}\n{front.FRONT}'
    try:
        if folder.parent.name == ".mnrun":
            paths.private(folder.parent)
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        for program in front.PROGRAMS:
            new = folder / f".{program}.{os.getpid()}"
            new.write_text(text, encoding="utf-8")
            new.chmod(0o755)
            new.replace(folder / program)
    except OSError as error:
        raise Impossible(
            f"cannot write {folder}: {error.strerror}", "name another directory with --directory"
        ) from None


def _behind_fronts(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which the scheduler's own programs are found."""
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    return {**environ, "PATH": os.pathsep.join(place for place in places if not _is_front(place or "."))}


def _is_front(place: str) -> bool:
    from mnrun.schedulers import FRONTS

    for front in FRONTS.values():
        with (
            suppress(OSError),
            open(os.path.join(place, front.PROGRAMS[0]), encoding="utf-8", errors="replace") as file,
        ):
            return file.read(256).partition("\n")[2].startswith(MARK)
    return False


def _become(words: Sequence[str], program: str, path: str, show: bool) -> NoReturn:
    """Become the program that `path` has. It gets this process's environment, with the PATH that jobs take along."""
    import shutil
    import signal
    from shlex import join

    if show:
        click.echo(join((program, *words)))
        sys.exit(0)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and a program would inherit that
    try:
        os.execv(shutil.which(program, path=path) or program, [program, *words])  # nosec B606 # no shell reads the words
    except OSError as error:
        raise UsageError(f"{program}: {error.strerror}", "put its directory on PATH") from None


def _run(words: Sequence[str], environ: Mapping[str, str], show: bool) -> NoReturn:
    from shlex import join

    from mnrun.cli.main import main

    if show:
        click.echo(join(("mnrun", *words)))
        sys.exit(0)
    os.environ.clear()
    os.environ.update({name: value for name, value in environ.items() if not name.startswith("PYXIS_")})
    main.main(list(words), prog_name="mnrun", standalone_mode=False)
    sys.exit(0)


def _step(front: Front, job: str, words: Sequence[str], environ: dict[str, str], show: bool) -> list[str] | None:
    """Return mnrun's words for a line that starts ranks, or None for a line without a container."""
    if tuple(words) == ("--help",):
        _help(front, environ)
    asked = front.shimmed(words, environ)
    if asked is None:
        return None
    if asked.flag == "exec":  # SkyPilot's driver has a HOME of its own, in which no line has left a name
        environ["HOME"] = os.environ["HOME"] = pwd.getpwuid(os.getuid()).pw_dir
    container = [*asked.container, *_traits(asked, environ)]
    if asked.name and (entered := _named(asked, container, asked.job or job, show)):
        return _entering(asked, entered, asked.job or job, show)
    verb, command = ("shell", ()) if asked.prompt else ("run", ("--", *asked.command))
    return [verb, *container, *asked.options, *command]


def _help(front: Front, environ: Mapping[str, str]) -> NoReturn:
    from mnrun.system import commands

    done = commands.run((front.PROGRAMS[0], "--help"), 30, environ, instead="put its directory on PATH")
    click.echo(done.stdout + front.help_text(), nl=False)
    sys.exit(done.returncode)


def _containers(front: Front, job: str, words: Sequence[str], environ: Mapping[str, str], show: bool) -> None:
    """Answer a line about the containers that run here. Return for any other line."""
    from pathlib import Path

    from mnrun.attach import user
    from mnrun.jobs import named

    answer = front.listed(words, named.here(Path.home(), job, user.bases(None)))
    if answer is None:
        return
    click.echo(answer, nl=False)
    sys.exit(0)


def _traits(asked: Shimmed, environ: Mapping[str, str]) -> list[str]:
    """Return mnrun's words for what the container shall be, in the words of its runtime."""
    from mnrun import runtimes

    if not asked.traits:
        return []
    from mnrun.config import load
    from mnrun.running.request import cwd

    sources = load.read({}, "", environ, cwd(), os.path.expanduser("~"))
    runtime = str(load.gather(sources, environ).settings["runtime"].value)
    runtime = runtimes.DEFAULT if runtime == "auto" else runtime
    words: list[str] = []
    for trait in sorted(asked.traits):
        if runtime not in (able := runtimes.TRAITS[trait]):
            raise Impossible(f"a container that is {trait}: {runtime} has none", f"use --runtime {next(iter(able))}")
        words += [part for word in able[runtime] for part in ("--container-args", word)]
    return words


def _named(asked: Shimmed, container: list[str], job: str, show: bool) -> LaunchRecord | None:
    """Return the launch whose container a line enters, by its name. For a new container, complete its words, and
    remember them for later lines."""
    from pathlib import Path

    from mnrun.attach import user
    from mnrun.jobs import named
    from mnrun.system.screen import Screen

    home, name = Path.home(), asked.name
    known = named.recall(home, job, name) if job and asked.flag != "create" else None
    launch = named.running(known, user.bases(None)) if known and asked.flag in ("auto", "exec") else None
    if launch is not None:
        return launch
    if asked.flag == "exec":
        raise UsageError(f"no container {name} runs in this job", "start it, or leave :exec out")
    image = "--image" in container
    if known is None and not image:
        raise UsageError(f"no line of this job has made a container {name}", "add --container-image IMAGE")
    if known is not None and known.writable:
        problem = f"container {name} is made anew, and what earlier lines wrote into it is gone"
        if not image:
            raise Impossible(problem, "build an image that has it, or write it to a directory of --container-mounts")
        Screen().warn(problem)
    if known is not None and not image:
        container[:0] = known.container
    if job and not show and asked.flag != "no_exec":
        named.remember(home, job, name, container, "writable" in asked.traits)
    return None


def _entering(asked: Shimmed, launch: LaunchRecord, job: str, show: bool) -> list[str]:
    """Return mnrun's words for a line that enters a container which runs."""
    if not asked.single and len(launch.nodes) > 1:
        problem = f"container {asked.name} runs, and more than one rank cannot enter it"
        raise Impossible(problem, "write --nodes=1 --ntasks=1 -w NODE for each")
    if not show:
        _redirect(asked, job)
    into = ("sh", "-c", _INTO, "sh", asked.chdir) if asked.chdir else ()
    node = asked.node if asked.node in launch.nodes else launch.nodes[0]
    terminal = ("-t",) if asked.prompt and os.isatty(0) else ()
    return ["exec", launch.job, "--node", node, *terminal, "--", *into, *asked.command]


def _redirect(asked: Shimmed, job: str) -> None:
    from mnrun.attach import user
    from mnrun.jobs import patterns
    from mnrun.schedulers.vocabulary import JobId

    known = patterns.values(JobId.of(job), os.path.basename(asked.command[0]) if asked.command else "", user.name())
    for pattern, number in ((asked.output, 1), (asked.error or asked.output, 2)):
        if pattern:
            path = patterns.filled(pattern, known)
            try:
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), number)
            except OSError as error:
                raise Impossible(f"cannot write {path}: {error.strerror}", "name another file") from None


def _script(front: Front, job: str, words: Sequence[str], environ: Mapping[str, str], show: bool) -> None:
    """Hand in a script whose container mnrun starts, or one that came by standard input. Return for any other."""
    import tempfile
    from pathlib import Path

    from mnrun.running import submission

    line = front.script_of(words)
    source = Path(line.script).read_bytes() if os.path.isfile(line.script) else b""
    typed = sys.stdin.buffer.read() if line.reads else b""
    text = (source or typed).decode(errors="surrogateescape")
    new = front.within(text, line.container, submission.own_call(), environ, os.path.basename(line.script))
    if new is None and not typed:
        return
    if new is not None and show:
        click.echo(new, nl=False)
        sys.exit(0)
    with tempfile.TemporaryFile() as file:
        file.write((new or text).encode(errors="surrogateescape"))
        file.seek(0)
        os.dup2(file.fileno(), 0)
    whole = words if new is None else (*line.own, "/dev/stdin", *line.arguments)
    _become(whole, front.PROGRAMS[1], environ["PATH"], show)

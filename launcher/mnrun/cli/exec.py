"""`mnrun exec`: run a command in the container of a running job."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mnrun.cli import complete
from mnrun.cli.parsing import job_dir_option, rank_numbers
from mnrun.errors import Impossible, UsageError

if TYPE_CHECKING:
    from pathlib import Path

_WITH_VALUE = ("--rank", "--node", "--ranks", "--job-dir")
_FLAGS = ("--all", "-t", "--terminal")


class ExecVerb(click.Command):
    """A command whose options stand before the job's id or after it, and end at the first other word. `ctx.obj` is the
    id. A job's name counts in front of --, with options between, and that of a running job counts alone, if it is
    another than its program's: any other word may be a command."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[ID]", "[OPTIONS]", "[--]", "CMD…"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # a shell asks for completions, which the id does not change
            ctx.obj, args = _split(args)
        return super().parse_args(ctx, args)


def _split(args: list[str]) -> tuple[str, list[str]]:
    from mnrun.attach import meant, user
    from mnrun.jobs import launches

    place = _behind(args, 0, every=True)
    if place == len(args) or args[place] == "--":
        return "", args
    word, rest = args[place], [*args[:place], *args[place + 1 :]]
    if launches.is_name(name := user.identity(word)):
        return name, rest
    end = _behind(args, place + 1)
    bases = user.bases(_value(args[:end], "--job-dir"))
    if args[end : end + 1] == ["--"]:
        own = any(option.partition("=")[0] in _WITH_VALUE for option in args[place + 1 : end])
        meant_so = end == place + 1 or own or meant.known(word, bases)  # ls -t -- x
    else:
        meant_so = meant.given(word, bases)
    return (meant.running(word, bases), rest) if meant_so else ("", args)


def _behind(args: list[str], place: int, every: bool = False) -> int:
    """Return the place behind the options that begin here: mnrun's own, or `every` one."""
    while place < len(args) and args[place].startswith("-") and args[place] != "--":
        if not (every or args[place] in _FLAGS or args[place].partition("=")[0] in _WITH_VALUE):
            break
        place += 2 if args[place] in _WITH_VALUE else 1
    return min(place, len(args))


def _value(args: list[str], option: str) -> str | None:
    """Return the value of an option, as `--option VALUE` or `--option=VALUE`."""
    together = [word.partition("=")[2] for word in args if word.startswith(f"{option}=")]
    apart = [value for word, value in zip(args, args[1:]) if word == option]
    return next(iter(together + apart), None)


@click.command("exec", cls=ExecVerb, context_settings={"allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, shell_complete=complete.entered)
@click.option(
    "--rank", type=click.IntRange(0), metavar="R", help="Enter the container of this rank, with its environment."
)
@click.option(
    "--node",
    default="",
    metavar="N",
    help="Enter the container of this node.  [default: the first node]",
    shell_complete=complete.job_nodes,
)
@click.option("--all", "every", is_flag=True, help="Run CMD on all nodes. Each line begins with its node.")
@click.option("--ranks", default="", metavar="LIST", help="Run CMD for these ranks: 0-3,8. Lines begin with the rank.")
@click.option("-t", "--terminal", is_flag=True, help="Give CMD a terminal.")
@job_dir_option
@click.pass_obj
def exec(  # the verb's name
    identity: str,
    /,
    words: tuple[str, ...],
    rank: int | None,
    node: str,
    every: bool,
    ranks: str,
    terminal: bool,
    job_dir: str | None,
) -> None:
    """Run CMD in the container of a running job, and exit with CMD's code, or with that of the first that failed.

    Without an ID, the job is your only one that runs. Without a CMD, it is a shell. CMD ends with the job.
    """
    from mnrun.attach import target, user
    from mnrun.reach import ssh
    from mnrun.system import client
    from mnrun.system.copied import Copied, is_file
    from mnrun.system.screen import Screen

    given = {"--rank": rank is not None, "--node": node, "--all": every, "--ranks": ranks}
    if len(chosen := [name for name, value in given.items() if value]) > 1:
        raise UsageError(f"{' and '.join(chosen)} together", "choose one")
    if terminal and not os.isatty(0):
        raise UsageError("-t needs a terminal, and standard input is none", "leave out -t")
    bases = user.bases(job_dir)
    if every or ranks:
        sys.exit(_spread(identity, bases, rank_numbers(ranks, "--ranks"), words, terminal))
    on_terminal = terminal or (not words and os.isatty(0))
    entry = target.entry(identity, bases, os.environ, rank, node, words, on_terminal)
    copied = Copied(1) if is_file(1) else None
    code = client.run(entry.command, entry.environ, entry.lines.own, copied.end if copied else None)
    if code == ssh.FAILED and entry.command.argv[0] == "ssh":
        place = entry.node
        Screen().say(f"code {code} may be ssh's own: mnrun exec goes to {place} by ssh. Try ssh {place} true")
    if copied is not None:
        copied.drain()
        if lost := copied.lost():
            Screen().error(lost)
            code = code or Impossible.code
    sys.exit(code)


def _spread(identity: str, bases: Sequence[Path], ranks: Sequence[int], words: tuple[str, ...], terminal: bool) -> int:
    from mnrun.attach import spread, target

    if terminal or not words:
        raise UsageError("several commands have no terminal", "write a command: mnrun exec --all -- hostname")
    entries = target.entries(target.entered(identity, bases, os.environ), ranks, words, os.environ)
    first = next(iter(entries.values()))
    return spread.run({name: entry.command for name, entry in entries.items()}, first.lines, first.environ)

"""`mnrun migrate`: write a batch script of other tools anew."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from mnrun.errors import Impossible, UsageError

if TYPE_CHECKING:
    from mnrun.migration.rewrite import Rewriting


@click.command()
@click.argument("file")
@click.option("--diff", is_flag=True, help="Print what changes, as a diff.")
@click.option("--toml", is_flag=True, help="Print a job file, for a script with one step.")
@click.option("-o", "--output", metavar="FILE", default="", help="Write to this file, which must be new.")
def migrate(file: str, diff: bool, toml: bool, output: str) -> None:
    """Print the batch script FILE with mnrun in place of mpirun, srun and other tools for containers.

    A line that is not understood stays as it was, and is named.
    """
    from mnrun.migration import jobfile, rewrite
    from mnrun.system.screen import Screen

    if diff and toml:
        raise UsageError("--diff and --toml exclude each other", "leave one of them out")
    text = _script(file)
    try:
        made = rewrite.Rewriting(text)
    except UsageError as error:
        raise UsageError(f"{file}: {error.message}", error.remedy) from None
    shown = Screen()
    for line, words in made.gone:
        shown.say(f"{file}:{line}: left out, since mnrun does it: {words}")
    for remark in made.remarks:
        shown.warn(f"{file}:{remark.line}: {'stays as it was: ' if remark.stays else ''}{remark.text}")
    if not made.steps:
        raise Impossible(f"{file}: no line could be turned", "the lines above say why")
    page, left = jobfile.page(made, os.path.basename(file)) if toml else (made.text, [])
    for number, words in left:
        shown.warn(f"{file}:{number}: not in the job file: {words}")
    _print(_changes(file, text, made) if diff else page, file, output)


def _script(file: str) -> str:
    from mnrun.system import paths

    try:
        text = paths.text(file)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", "name a batch script") from None
    if "\0" in text or (text.startswith("#!") and "python" in text.partition("\n")[0]):
        raise UsageError(f"{file} is no script of a shell", "name a batch script")
    return text


def _changes(file: str, text: str, made: Rewriting) -> str:
    import difflib

    before, after = (lines.splitlines(keepends=True) for lines in (text, made.text))
    lines = difflib.unified_diff(before, after, file, f"{file}, by mnrun migrate", n=2)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _print(page: str, file: str, output: str) -> None:
    if not output:
        click.echo(page.encode("utf-8", "surrogateescape"), nl=False)
        return
    try:
        with open(output, "x", encoding="utf-8", errors="surrogateescape", newline="") as new:
            new.write(page)
        os.chmod(output, os.stat(file).st_mode & 0o777)
    except FileExistsError:
        raise UsageError(f"{output} exists", "name another with -o") from None
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}", "name another with -o") from None
    click.echo(output)

"""Find the files that ship with mnrun, and fill in its templates."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from mnrun.errors import UsageError

# The bash of our scripts. It reads no file of the user's: with -c below an sshd, bash reads ~/.bashrc even with -p.
# -p ignores BASH_ENV, CDPATH, SHELLOPTS and exported functions, by which a user could change our scripts (bash(1)).
BASH = ("bash", "--norc", "-p")

_COMMENT = re.compile(r"^[ \t]*#( .*)?\n", re.MULTILINE)


def folder(name: str) -> Path:
    """Return the folder `name`, such as "wrappers": in the installed package, or else in the checkout."""
    package = Path(__file__).resolve().parent
    return package / name if (package / name).is_dir() else package.parents[1] / name


@cache
def wrappers(*folders: str) -> dict[str, Path]:
    """Return name -> file for every wrapper in these folders of wrappers/, or in all. No two have the same name."""
    top = folder("wrappers")
    # Path.rglob and is_file would look at each file, which takes 3 ms, and more on a network file system.
    places = ((place, name) for where in folders or ("",) for place, _, names in os.walk(top / where) for name in names)
    files = [Path(place, name) for place, name in places if os.path.splitext(name)[1] in ("", ".sh", ".py")]
    return {path.name: path for path in sorted(files)}


def wrapper(name: str) -> str:
    """Return the text of that wrapper."""
    return wrappers()[name].read_text(encoding="utf-8")


def lean(text: str) -> str:
    """Return a wrapper's text without its lines of comment. A shell reads them again in every process."""
    return _COMMENT.sub("", text)


@cache
def spoken(name: str) -> str:
    """Return that wrapper as one word of a command line, without its comments."""
    lines = (line.partition(" # ")[0].rstrip() for line in wrapper(name).splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def render(template: str, before: str = "", *, otherwise: str = "", **values: object) -> str:
    """Return the text of `template`, with `values`.

    The template lies in the directory `before`, or else in `sbatch_templates/`. If it is in neither, `otherwise` is
    taken.
    A template can only make text: `mnrun submit --dry-run` shows the script of a job file that nobody has read.
    Raises UsageError with file and line if it is no template, or uses an unknown name.
    """
    from jinja2 import FileSystemLoader, StrictUndefined, TemplateError, TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if before and not os.path.isdir(before):
        raise UsageError(f"--templates {before} is not a directory", "name a directory that holds slurm.sh")

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader([*([before] if before else []), folder("sbatch_templates")]),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        return environment.select_template([template, otherwise]).render(**values)
    except TemplateSyntaxError as error:
        raise UsageError(f"{error.filename} line {error.lineno}: {error.message}") from None
    except TemplateError as error:
        place = environment.select_template([template, otherwise]).filename
        raise UsageError(f"{place}: {error.message}", "docs/internals/batch-script.md lists the names") from None
    except Exception as error:  # for example a template that is not UTF-8, or divides by zero
        path = os.path.join(before, template)
        place = path if before and os.path.exists(path) else template
        raise UsageError(f"{place}: {type(error).__name__}: {error}", "correct that template") from None

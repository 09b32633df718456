"""Find recipes of images, and render them with HPCCM to a Dockerfile or a Singularity definition.

A recipe is a file of HPCCM. Its comment on top says what the image is for. Below that, the comment has a line
`#   NAME=DEFAULT    meaning` for each build argument, which the recipe reads as USERARG['NAME'].
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mnrun.errors import Impossible, UsageError
from mnrun.files import folder
from mnrun.images import reference

_ARGUMENT = re.compile(r"#   (\w+)=(\S*) +(\S.*)")
_APT = Path("/etc/apt")
_ARCHIVE = re.compile(r"^(?:deb(?: +\[[^]]*\])?|URIs:) +((?:https?|file):\S+)", re.MULTILINE)
_DEBOOTSTRAP = "BootStrap: debootstrap\n"


@dataclass(frozen=True)
class Recipe:
    """A recipe: its purpose in a sentence, and its build arguments as name -> (default, meaning)."""

    name: str
    path: Path
    purpose: str
    arguments: Mapping[str, tuple[str, str]]


def recipes() -> list[Recipe]:
    """Return the recipes that ship with mnrun."""
    return [read(path) for path in sorted(folder("containers").glob("*.py"))]


def find(name: str) -> Recipe | None:
    """Return the recipe of that name that ships with mnrun, or None."""
    return next((recipe for recipe in recipes() if recipe.name == name), None)


def read(path: Path) -> Recipe:
    """Return the recipe in a file. Raises UsageError if the file cannot be read."""
    if not path.is_file():
        raise UsageError(f"cannot read {path}: it is not a file", "name a recipe")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    purpose: list[str] = []
    arguments: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if match := _ARGUMENT.fullmatch(line):
            arguments[match[1]] = (match[2], match[3])
        elif not arguments:
            purpose.append(line[1:].strip())
    return Recipe(path.stem, path, " ".join(purpose).strip(), arguments)


def render(recipe: Recipe, given: Mapping[str, str], form: str) -> str:
    """Return the text of a recipe in this format. Raises UsageError for a wrong argument, Impossible without HPCCM."""
    try:
        from hpccm import recipe as hpccm_recipe
        from hpccm.common import container_type
    except ImportError:
        remedy = "add it to mnrun's environment: pip install hpccm, or pipx inject mnrun hpccm"
        raise Impossible("recipes need HPCCM, which is not installed", remedy) from None
    kind = container_type.DOCKER if form == "docker" else container_type.SINGULARITY
    arguments = _arguments(recipe, given, form)
    try:
        # Definitions have stages since Singularity 3.2.
        text: str = hpccm_recipe(
            str(recipe.path), ctype=kind, userarg=arguments, singularity_version="3.2", raise_exceptions=True
        )
    except KeyError as error:
        raise UsageError(f"{recipe.path} knows no {error}", "give another value with --arg NAME=VALUE") from None
    except Exception as error:  # a recipe is a program, and can fail in any way
        raise UsageError(f"{recipe.path}: {type(error).__name__}: {error}", "correct that recipe") from None
    if _DEBOOTSTRAP in text:  # its words for the base are others than those of HPCCM
        text = text.replace(f"{_DEBOOTSTRAP}From:", f"{_DEBOOTSTRAP}MirrorURL: {archive()}\nOSVersion:")
    return text.strip() + "\n"


def archive() -> str:
    """Return the archive of packages that apt uses on this machine. Raises UsageError if it uses none."""
    for path in (_APT / "sources.list", *sorted((_APT / "sources.list.d").glob("*"))):
        if path.is_file() and (match := _ARCHIVE.search(path.read_text(encoding="utf-8", errors="replace"))):
            return match[1]
    problem = f"base=debootstrap:… needs an archive of packages, and {_APT} names none"
    raise UsageError(problem, "write a definition with MirrorURL, or name another base")


def _arguments(recipe: Recipe, given: Mapping[str, str], form: str) -> dict[str, str]:
    """Return all build arguments of a recipe. Raises UsageError for one that it does not have."""
    unknown = [name for name in given if name not in recipe.arguments]
    if unknown and recipe.arguments:
        known = ", ".join(recipe.arguments)
        raise UsageError(f"{recipe.name} has no build argument {', '.join(unknown)}", f"it has {known}")
    values = {**{name: default for name, (default, _) in recipe.arguments.items()}, **given}
    if "base" in values:
        values["bootstrap"], values["base"] = base_image(values["base"], form)
    return values


def base_image(text: str, form: str) -> tuple[str, str]:
    """Return the agent that fetches a base, and the base as that agent names it. Raises UsageError. A file or a
    directory has the agent localimage, and debootstrap:SUITE is Debian's installer. Only definitions have these two."""
    agent, _, suite = text.partition(":")
    if agent == "debootstrap":
        if form == "docker" or not re.fullmatch(r"[a-z]+", suite):
            raise UsageError(f"base={text} is no base here", "write -o FILE.sif with base=debootstrap:trixie")
        return agent, suite
    path = os.path.abspath(os.path.expanduser(text))
    try:
        from_registry = reference.is_reference(text, os.path.exists(path))
    except UsageError as error:
        raise UsageError(str(error).replace("--image ", "base=")) from None
    if from_registry:
        scheme, _, name = text.rpartition("://")
        if form == "docker" and scheme not in ("", "docker"):
            problem = f"base={text} is no image for a Dockerfile"
            raise UsageError(problem, "name an image of docker://, or use -o FILE.sif")
        return scheme or "docker", name
    if form == "docker":
        problem = f"base={text} is a file or directory, and a Dockerfile begins with an image"
        raise UsageError(problem, "name an image of a registry or of the store, or use -o FILE.sif")
    if not os.path.exists(path):
        problem = f"base={text} does not exist"
        raise UsageError(problem, "name an image of a registry, a SIF file, or a root file system")
    return "localimage", path

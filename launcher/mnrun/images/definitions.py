"""Tell Dockerfiles and Singularity definitions apart, and turn one into the other with spython."""

from __future__ import annotations

import re
from pathlib import Path

from mnrun.errors import UsageError

_BEGINNINGS = {"singularity": r"bootstrap\s*:", "docker": r"(from|arg)\s"}


# What is built of a directory. HPCCM's recipes are programs, and have the word Stage0.
_NAMES = {"docker": ("Dockerfile", "Containerfile"), "singularity": ("Singularity", "*.def"), "recipe": ("*.py",)}
_LOOKED = "Dockerfile, Containerfile, Singularity, *.def, or a recipe *.py with Stage0"


def within(folder: Path, form: str) -> Path:
    """Return the file in a directory from which an image is built: of this form, or a recipe, or of the other form.
    Raises UsageError if there is none, or more than one of the first kind that is there."""
    for kind in dict.fromkeys((form, "recipe", *_NAMES)):
        found = sorted(path for name in _NAMES[kind] for path in folder.glob(name) if _is_source(path, kind))
        if len(found) > 1:
            raise UsageError(f"{folder} has {' and '.join(path.name for path in found)}", "name one of them")
        if found:
            return found[0]
    raise UsageError(f"{folder} has nothing to build an image from: no {_LOOKED}", "name a file, or a recipe of mnrun")


def _is_source(path: Path, kind: str) -> bool:
    return path.is_file() and (kind != "recipe" or b"Stage0" in path.read_bytes())


def form_of(path: Path) -> str:
    """Return "docker" or "singularity", by the first instruction of a file. Raises UsageError for any other file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    first = next((line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    for form, beginning in _BEGINNINGS.items():
        if re.match(beginning, first, re.IGNORECASE):
            return form
    problem = f"{path} is neither a Dockerfile nor a definition: it begins with {first[:60]!r}"
    raise UsageError(problem, "the first instruction is FROM or ARG, or Bootstrap:")


def converted(path: Path, form: str) -> str:
    """Return the text of a Dockerfile or a definition in the other form. Raises UsageError if that is impossible."""
    from spython.logger import bot
    from spython.main.parse.parsers import DockerParser, SingularityParser
    from spython.main.parse.writers import DockerWriter, SingularityWriter

    if form == "docker":
        _refuse_other_agents(path)
    bot.level = 0  # errors are in its history all the same
    try:
        if form == "docker":
            text: str = DockerWriter(SingularityParser(str(path)).recipe).convert()
        else:
            text = SingularityWriter(DockerParser(str(path)).recipe).convert()
    except SystemExit:  # spython ends the process at an error
        said = bot.history[-1].strip() if bot.history else "spython gives no reason"
        raise UsageError(f"{path} has no counterpart for {form}: {said}", "write that file yourself") from None
    return text.strip() + "\n"


def _refuse_other_agents(path: Path) -> None:
    """Refuse a definition that does not begin with an image of a registry. spython would take any name for one."""
    agents = re.findall(r"^\s*bootstrap\s*:\s*(\S+)", path.read_text(encoding="utf-8"), re.IGNORECASE | re.MULTILINE)
    others = [agent for agent in agents if agent.lower() != "docker"]
    if others:
        problem = f"{path} begins with Bootstrap: {others[0]}, and a Dockerfile begins with an image of a registry"
        raise UsageError(problem, "use -o FILE.sif")

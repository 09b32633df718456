"""Tell Dockerfiles and Singularity definitions apart, and turn one into the other with spython."""

from __future__ import annotations

import re
from pathlib import Path

from mnrun.errors import UsageError

_BEGINNINGS = {"singularity": r"bootstrap\s*:", "docker": r"(from|arg)\s"}


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
    raise UsageError(
        f"{path} is neither a Dockerfile nor a definition: it begins with {first[:60]!r}",
        "the first instruction is FROM or ARG, or Bootstrap:",
    )


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
        raise UsageError(
            f"{path} begins with Bootstrap: {others[0]}, and a Dockerfile begins with an image of a registry",
            "use -o FILE.sif",
        )

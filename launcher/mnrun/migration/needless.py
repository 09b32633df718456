"""Find the lines of a script that nothing needs any more once mnrun starts its ranks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mnrun.migration.known import Known
from mnrun.migration.lines import PLACES
from mnrun.migration.shell import Command, Script, blanked
from mnrun.record import Record

_MASTER = ("MASTER_ADDR", "MASTER_PORT")
_MPI = re.compile(
    r"(open-?mpi|ompi|(cray-)?mpich(-abi)?|mvapich2?|impi|intel-?mpi|intel-oneapi-mpi|hpcx)([-/_.]\S*)?", re.IGNORECASE
)
# A script with these needs the node's own MPI.
_USES_MPI = re.compile(
    r"\b(mpicc|mpicxx|mpic\+\+|mpif\w+|make|cmake|(SINGULARITY|APPTAINER)ENV_LD_\w+)\b|/mpich|/openmpi"
)


class Edit(Record):
    """A part of a script that gets another text. `gone` is what is left out by that."""

    begin: int
    end: int
    text: str = ""
    gone: str = ""


def edits(script: Script, known: Known, made: Sequence[Edit]) -> list[Edit]:
    """Return the edits by which lines go. `made` are those of the commands."""
    return [*lines(script, _variables(script, known, made)), *_modules(script)]


def _variables(script: Script, known: Known, made: Sequence[Edit]) -> list[Command]:
    """Return the lines with variables that mnrun sets, or that lead to such a one, if no other line has them."""
    ours = {*PLACES, *_MASTER}  # the program may read any other variable that is exported
    doomed = [
        command
        for command in script.commands
        if not command.depth
        and command.assigned
        and (not command.words or {*command.assigned} <= ours)
        and all(_may_go(known, name, value) for name, value in command.assigned.items())
    ]
    new = "\n".join(edit.text for edit in made)
    parts = [*((edit.begin, edit.end) for edit in made), *script.comments]
    while doomed:
        rest = blanked(script.text, [*parts, *((one.begin, one.end) for one in doomed)]) + new
        kept = [one for one in doomed if not any(re.search(rf"(?<![\w-]){name}\b", rest) for name in one.assigned)]
        if len(kept) == len(doomed):
            break
        doomed = kept
    return doomed


def _may_go(known: Known, name: str, value: str) -> bool:
    if name in PLACES:
        return not value or bool(re.search(known.ranks, value))
    return name in _MASTER or name in known.used or known.lists_nodes(name)


def lines(script: Script, doomed: Sequence[Command]) -> Iterator[Edit]:
    """Yield the edits by which whole lines go. A line with another command stays."""
    for command in doomed:
        begin, end = script.text.rfind("\n", 0, command.begin) + 1, script.end_of_line(command.end) + 1
        beside = [one for one in script.commands if begin <= one.begin < end]
        if beside[0] is command and all(one in doomed for one in beside):
            yield Edit(begin, end, gone=script.text[begin : end - 1].strip())


def _modules(script: Script) -> Iterator[Edit]:
    """Yield the edits by which modules of an MPI go: the image has its own."""
    if _USES_MPI.search(script.text):
        return
    for command in script.commands:
        first, *rest = command.words or ("",)
        verb = 2 if rest[:1] in (["load"], ["add"]) else 1
        names = command.words[verb:]
        kept = [word for word in names if not _MPI.fullmatch(word)]
        plain = first == "ml" or (first == "module" and verb == 2)
        if not plain or len(kept) == len(names) or any(word.startswith("-") for word in names):
            continue
        if kept:
            gone = " ".join(word for word in names if word not in kept)
            yield Edit(command.begin, command.end, script.typed([*command.lead, *command.words[:verb], *kept]), gone)
        else:
            yield from lines(script, [command])

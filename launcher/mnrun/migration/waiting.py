"""Find containers that only wait on each node until `docker exec` starts a program in one of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from mnrun.errors import Impossible, LaunchError
from mnrun.migration import containers
from mnrun.migration.shell import Command, Script, Word

_STORES = ("docker", "podman")
_WAITS = re.compile(r"(sleep|tail|cat|bash|sh|/bin/(ba)?sh|/usr/sbin/sshd)\b.*")
_ENDS = ("stop", "rm", "kill")
_SSH_VALUES = tuple(f"-{letter}" for letter in "oiplFJLRDbceEImOQSwW")


@dataclass
class Waiting:
    """A container that waits, and the commands that start or end it, by their places."""

    container: containers.Container
    places: list[int] = field(default_factory=list)
    used: bool = False


def find(script: Script, known: Callable[..., str]) -> dict[str, Waiting]:
    """Return the containers of a script that wait, by their names."""
    found: dict[str, Waiting] = {}
    for place, command in enumerate(script.commands):
        words = _there(script, command)
        if words[:1] not in (["docker"], ["podman"]):
            continue
        if words[1:2] == ["run"]:
            try:
                one = containers.read(words, known)
            except LaunchError:
                continue
            if one.waits and one.name and _WAITS.fullmatch(" ".join(one.command)):
                found[one.name] = Waiting(one, [place])
        elif words[1:2] and words[1] in _ENDS and words[-1] in found:
            found[words[-1]].places.append(place)
    return found


def entered(words: Sequence[str], waiting: dict[str, Waiting]) -> containers.Container | None:
    """Return the container of a line of `docker exec`, with the line's own options and command. None for another line.
    Raises Impossible."""
    if words[0] not in _STORES or words[1:2] != ["exec"]:
        return None
    one = containers.entering(words)
    if one.image not in waiting:
        raise Impossible(f"the container {one.image} is started in a way that is not understood", "write its image")
    there = waiting[one.image]
    there.used = True
    options, notes = [*there.container.options, *one.options], [*there.container.notes, *one.notes]
    return containers.Container(options, there.container.image, one.command, notes)


def needless(script: Script, waiting: dict[str, Waiting]) -> Iterator[tuple[Command, Command]]:
    """Yield the first and last command of each part that only starts or ends containers which are entered."""
    told: list[tuple[Command, Command]] = []
    places = {place for one in waiting.values() if one.used for place in one.places}
    for place in sorted(places):
        command = script.commands[place]
        if not command.depth:
            yield command, command
        elif (loop := _loop(script, place, places)) and loop not in told:
            told.append(loop)
            yield loop


def _loop(script: Script, place: int, places: set[int]) -> tuple[Command, Command] | None:
    """Return the first and last command of a loop around this one, if the loop does nothing else."""
    depth = script.commands[place].depth
    begin = next((at for at in range(place, -1, -1) if script.commands[at].depth < depth), 0)
    end = next((at for at in range(place, len(script.commands)) if script.commands[at].words == ["done"]), 0)
    inner = [at for at in range(begin + 1, end) if at not in places and script.commands[at].words not in ([], ["wait"])]
    first = script.commands[begin]
    return (first, script.commands[end]) if first.words[:1] == ["for"] and not inner and depth == 1 else None


def _there(script: Script, command: Command) -> list[Word]:
    """Return the words of a command, or of the one that ssh runs on another host."""
    words = list(command.words)
    if words[:1] != ["ssh"]:
        return words
    place = 1
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] in _SSH_VALUES else 1
    rest = words[place + 1 :]
    if len(rest) != 1:
        return rest
    inner = re.fullmatch(r"""(["'])((?:(?!\1)[^\\])*)\1""", rest[0].raw)
    commands = Script(inner[2]).commands if inner else []
    return [script.word_of(word.raw) for word in commands[0].words] if len(commands) == 1 else []

"""Read one command of a script, and say it in mnrun's words. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mnrun.errors import Impossible
from mnrun.migration import containers, starters, waiting
from mnrun.migration.known import Known
from mnrun.migration.shell import EXPANSION, Command, Script, Word
from mnrun.planning.starters import FLAGS, torchrun_words
from mnrun.record import Record
from mnrun.runtimes import TRAITS
from mnrun.schedulers import FRONTS, KNOWN

PLACES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK")
_OTHER_MPI = "the image's mpirun starts the ranks now; --mode outside-in keeps the node's"
_SHORT = {"--ntasks": "-n", "--nodes": "-N", "--cpus-per-task": "-c", "--bind": "-B", "--chdir": "-D"}
_ONCE = ("-N", "1", "-n", "1", "--launcher", "env")
_TORCH = re.compile(r"--?(rdzv[-_](backend|endpoint|id)|master[-_](addr|port)|node[-_]rank)(=.*)?")


class Line(Record):
    """A command in mnrun's words. Words of `command` that stand in the script are known by their places."""

    options: tuple[str, ...]
    command: tuple[str, ...]
    notes: tuple[str, ...] = ()
    fed: bool = False  # whether every rank gets the input


class Lines:
    """Reads the commands of a script."""

    def __init__(self, script: Script, known: Known, there: dict[str, waiting.Waiting]) -> None:
        self.script, self.known, self.waiting = script, known, there

    def read(self, words: Sequence[str], command: Command) -> Line | None:
        """Return a command in mnrun's words, or None for one without a container. Raises LaunchError for one that mnrun
        cannot say."""
        line = self._started(words[words[0] == "exec" :])
        if line is None:
            return None
        if command.odd:
            raise Impossible("its input or output is another command", "write mnrun in front of its program")
        if command.reads and line.fed:
            raise Impossible("its input goes to every rank, and mnrun's to rank 0 alone", "write the input into a file")
        return line._replace(command=_torch(line.command))

    def _started(self, words: Sequence[str]) -> Line | None:
        program = words[0].rpartition("/")[2] if words else ""
        if program in starters.PROGRAMS:
            return self._by_mpi(words)
        for name, scheduler in KNOWN.items():
            if program == scheduler.STARTER and name in FRONTS:
                line = self._by_scheduler(name, words[1:])
                return line and line._replace(fed=("-n", "1") not in zip(line.options, line.options[1:]))
        if words and (inside := waiting.entered(words, self.waiting)):
            if inside.command[0] not in starters.PROGRAMS:
                return self._with(inside, ("-N", "1", "-n", "1", "--launcher", "env"))
            ranks = starters.read(inside.command, self.known.is_list_of_nodes)
            inside.command = ranks.rest
            return self._with(inside, ranks.options, ranks.notes)
        if not containers.begins(words):
            return None
        found = containers.read(words, self.known.text)
        many = found.command[0] in starters.PROGRAMS or torchrun_words(found.command) is not None
        size = ("-N", "1") if many else ("-N", "1", "-n", "1", "--launcher", "env")
        return self._with(found, size)

    def _by_mpi(self, words: Sequence[str]) -> Line | None:
        if not any(containers.begins(words[place:]) for place in range(1, len(words))):
            return None
        ranks = starters.read(words, self.known.is_list_of_nodes)
        if not containers.begins(ranks.rest):
            raise Impossible(f"{ranks.rest[0]} stands between {words[0]} and the container", "write it into the image")
        found = containers.read(ranks.rest, self.known.text)
        return self._with(found, ranks.options, (*ranks.notes, _OTHER_MPI))

    def _by_scheduler(self, name: str, words: Sequence[str]) -> Line | None:
        front, around = FRONTS[name], FRONTS[name].around(self.known.directives[name])
        plugin = any(word.startswith(("--container-image", "--container-name")) for word in words)
        if not plugin and not re.search(containers.STARTS, self.script.typed(words)):
            return None
        taken, words = self._taken(words)
        image = taken.get("image", "")
        value = self.known.text(image)
        here = "/" if not image or EXPANSION.search(value) else value
        asked = front.shimmed([f"--container-image={here}", *words], around)
        assert asked is not None
        if asked.prompt:
            raise Impossible("it opens a prompt", "use mnrun shell")
        ranks = tuple(_SHORT.get(word, word) for word in asked.options)
        if not plugin:
            inside = asked.command if containers.begins(asked.command) else self._in_shell(asked.command)
            if not inside:
                first = self.script.raw(asked.command[0])
                raise Impossible(f"{first} stands in front of the container", "write it behind the image")
            return self._with(containers.read(self.known.expanded(inside), self.known.text), ranks)
        if asked.name and (not image or self.script.text.count(asked.name) > 1):
            raise Impossible(f"the container {asked.name} stays for other lines", "mnrun shim runs these lines")
        notes = []
        if EXPANSION.match(value):
            notes.append(f"{self.script.raw(image)} is not known: mnrun wants a path, or docker://HOST/NAME:TAG")
        container = [_SHORT.get(word, re.sub(r":/(?=[\ue000-\uf8ff])", ":", word)) for word in asked.container]
        place = container.index("--image") + 1
        if container[place] in ("/", value):
            container[place] = image
        traits = (word for trait in sorted(asked.traits) for word in TRAITS[trait]["apptainer"])
        given = (word for name in filter(None, taken.get("env", "").split(",")) for word in ("-x", name))
        options = (*ranks, *given, *(word for trait in traits for word in ("--container-args", trait)))
        return Line((*options, *container), asked.command, tuple(notes))

    def _taken(self, words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """Return the values of options that are read here, and the other words. A variable may have many mounts."""
        found, rest, place = {}, [], 0
        while place < len(words):
            name, equals, value = words[place].partition("=")
            known = re.fullmatch("--container-(image|mounts|env)", name)
            if known and not equals and place + 1 < len(words):
                place, value = place + 1, words[place + 1]
            if known and known[1] == "mounts":
                whole = self.known.text(value, 1) if EXPANSION.fullmatch(value) else value
                if EXPANSION.fullmatch(whole):
                    raise Impossible(
                        f"the mounts of {self.script.raw(value)} are not known", "write -B SRC:DST for each"
                    )
                rest.append(f"{name}={whole}")
            elif known:
                found[known[1]] = value
            else:
                rest.append(words[place])
            place += 1
        return found, rest

    def _in_shell(self, command: Sequence[str]) -> list[Word]:
        """Return the words of a container's start that is all of `bash -c '…'`, but for lines that tell ranks their
        places, or none."""
        shell, *rest = command or ("",)
        if not (shell in ("bash", "sh") and len(rest) == 2 and rest[0] in ("-c", "-lc") and isinstance(rest[1], Word)):
            return []
        raw = rest[1].raw
        inner = Script(raw[1:-1]) if re.fullmatch("'[^']*'", raw) else None
        if inner is None or not inner.commands or not containers.begins(inner.commands[-1].words):
            return []
        *before, last = inner.commands
        plain = all(
            one.assigned
            and {*one.assigned} <= {*PLACES}
            and re.search(self.known.ranks, inner.text[one.begin : one.end])
            for one in before
        )
        if (
            not plain
            or last.redirections
            or last.lead
            or re.search(self.known.ranks, inner.text[last.begin : last.end])
        ):
            return []
        return [self.script.word_of(word.raw) for word in last.words]

    def _with(
        self,
        found: containers.Container,
        ranks: Sequence[str],
        notes: Sequence[str] = (),
    ) -> Line:
        if not found.image:
            found.image, mounts = self._directed()
            found.options += mounts
        return Line((*ranks, *found.options, "--image", found.image), tuple(found.command), (*notes, *found.notes))

    def _directed(self) -> tuple[str, list[str]]:
        """Return the image that the options of the script name, and its mounts. shifter takes them from there."""
        given = [word.partition("=") for words in self.known.directives.values() for word in words]
        images = [value for name, _, value in given if name == "--image"]
        if not images:
            raise Impossible("the line names no image", "write --image docker://NAME:TAG")
        mounts = [mount for name, _, value in given if name == "--volume" for mount in value.split(";")]
        return containers.named(images[-1], True, "shifter", self.known.text), [w for m in mounts for w in ("-B", m)]


def _torch(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command without the words of torchrun that mnrun sets."""
    words = torchrun_words(command)
    if words is None or any(re.match(r"--nnodes=?\S*:", word) for word in words):
        return tuple(command)
    kept, rest = list(command[: len(command) - len(words)]), list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if _TORCH.fullmatch(word):
            del rest[: 0 if "=" in word else 1]
        else:
            kept.append(word)
            if (
                "=" not in word
                and rest
                and not rest[0].startswith("-")
                and word.lstrip("-").replace("-", "_") not in FLAGS
            ):
                kept.append(rest.pop(0))
    return (*kept, *rest)

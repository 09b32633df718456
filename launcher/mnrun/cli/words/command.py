"""Refuse a command that is not meant as one: a verb, an image, a batch script, another tool's line, a quoted line."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterator, Sequence

from mnrun.cli.words.answers import CONTAINERS, VERBS
from mnrun.config.options import BY_FLAG, Option
from mnrun.errors import NoImageError, UsageError
from mnrun.images.reference import SCHEMES
from mnrun.near import nearest
from mnrun.planning.starters import PROGRAMS
from mnrun.record import Record

IMAGE = re.compile(r".+\.(sif|simg|sqsh|sqfs|squashfs)|[a-z]+://.+|[a-z0-9._/-]+:[A-Za-z0-9][\w.-]*")
OTHER_JOB_FILE = re.compile(r".+\.(ya?ml|json|tml|ini|conf)")
SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
OURS = "mnrun has -n for ranks, -B for mounts, -x for variables and -D for the directory"

# The options for the size of a job. Behind the program they have no effect.
SIZES = ("nodes", "ntasks", "ntasks_per_node", "cpus_per_task", "gpus_per_node")


class Line(Record):
    """A typed line in its parts. `plain` says that no -- stands before the command."""

    verb: str
    options: tuple[str, ...]
    command: tuple[str, ...]
    plain: bool
    job_file: str = ""

    @property
    def begin(self) -> tuple[str, ...]:
        return ("mnrun",) if self.verb == "run" else ("mnrun", self.verb)

    def has(self, *flags: str) -> bool:
        return any(word.partition("=")[0] in flags for word in self.options)

    def with_words(self, *words: str, command: Sequence[str]) -> str:
        end = ("--", *command) if command else ()
        return shlex.join((*self.begin, *self.options, *words, *end))


def refuse_first(word: str, verbs: Collection[str]) -> None:
    """Raise UsageError if the word is meant as a verb."""
    if word.startswith("-") or "/" in word or word.endswith(".toml"):
        return
    known = {**VERBS, **_of_schedulers("verbs")}
    if word in known:
        raise UsageError(f"there is no verb {word}", f"{known[word]}, or mnrun -- {word} for a program of that name")
    near = _near(word, verbs)
    known_program = word in (*CONTAINERS, *PROGRAMS, *_of_schedulers("commands")) or shutil.which(word)
    if near and not known_program and not os.path.exists(word):
        problem = f"there is no verb {word}: did you mean {near}?"
        raise UsageError(f"{problem} For a program of that name: mnrun -- {word}")


def _near(word: str, verbs: Collection[str]) -> str:
    """Return the verb that a word may mean, or ""."""
    begun = [verb for verb in verbs if len(word) > 2 and verb.startswith(word)]
    return begun[0] if len(begun) == 1 else nearest(word, verbs)


def refuse(line: Line, verbs: Collection[str]) -> None:
    """Raise UsageError if the command is not meant as one. The words after -- are believed, as far as they can work.
    With --script, the words are arguments, and any will do."""
    if not line.command or line.has("--script"):
        return
    if line.plain:
        _refuse_unquoted(line)
        _refuse_verb(line, verbs)
        _refuse_job_file(line)
        _refuse_image(line)
        _refuse_batch_script(line)
    _refuse_foreign(line)
    _refuse_quoted(line)


def verb_behind(line: Line, verb: str, flags: Collection[str]) -> UsageError:
    """Return the error for a line in which a verb stands after options. The verb has these flags of its own."""
    parts = [(words, option is not None and bool({*option.flags} & {*flags})) for option, words in _parts(line.options)]
    kept = [word for words, known in parts if known for word in words]
    left_out = [" ".join(words) for words, known in parts if not known]
    right = shlex.join(("mnrun", verb, *kept, *line.command[1:]))
    without = f"; {verb} has no {', '.join(left_out)}" if left_out else ""
    return UsageError(f"{verb} is a verb after options, and the verb comes first", f"write {right}{without}")


def options_behind(line: Line) -> UsageError | None:
    """Return the error for a line without an image, in which an option of mnrun's own stands after the command."""
    if not line.command or not line.plain:
        return None
    parts = list(_parts(line.command[1:]))
    found = [word for option, part in parts if option is not None for word in part]
    rest = [word for option, part in parts if option is None for word in part]
    if not _names_container(found):
        return None
    first, before = line.command[0], line.options[-2:]
    if before[:1] in (("-x",), ("--env",)) and "=" in before[1] and "--" in rest:  # a value of several words
        words = " ".join((before[1], first, *rest[: rest.index("--")]))
        problem = f"{first} after {shlex.join(before)} would be the program"
        return UsageError(problem, f"quote the value: {before[0]} {shlex.quote(words)}")
    flag = found[0].partition("=")[0]
    right = line.with_words(*found, command=(first, *rest))
    return UsageError(f"{flag} after {first} is an option of {first}", f"mnrun's own come first: {right}")


def without_image(line: Line, verbs: Collection[str], error: NoImageError) -> NoImageError:
    """Return the error for a line without an image. Its program may be a mistyped verb, as in `mnrun stat`."""
    word = "".join(line.command[:1])
    near = _near(word, verbs) if line.verb == "run" and line.plain else ""
    return NoImageError(error.message, f"{error.remedy}; or did you mean mnrun {near}?") if near else error


def size_behind(line: Line) -> str:
    """Return the warning for the size of the job after the program, or "". The program may have such an option. So a
    line with a --, or with that size in front, gets no warning."""
    if not line.command or not line.plain or "--" in line.command or line.has("--script"):
        return ""
    first, *behind = line.command
    given = {option.name for option, _ in _parts(line.options) if option is not None}
    parts = list(_parts(behind))
    if os.path.basename(first) in PROGRAMS or _names_container(behind):
        return ""
    sizes = [words for option, words in parts if option is not None and _is_size(option, words, given)]
    if not sizes:
        return ""
    moved = [word for words in sizes for word in words]
    rest = [word for _, words in parts if words not in sizes for word in words]
    problem = f"{shlex.join(moved)} after {first} is for {first}, and -- before {first} ends this warning"
    return f"{problem}; mnrun's own come first: {line.with_words(*moved, command=(first, *rest))}"


def starter_within(line: Line) -> str:
    """Return the warning for a shell that begins with mpirun or srun, or "". Each rank would start it again. One rank,
    or a script that runs once, is meant so."""
    shell, *rest = line.command or ("",)
    given = {option.name: words for option, words in _parts(line.options) if option is not None}
    one = re.fullmatch(r"-n1|(-n|-np|--ntasks)[= ]1", " ".join(given.get("ntasks", ())))
    if os.path.basename(shell) not in SHELLS or len(rest) != 2 or not re.fullmatch("-[elx]*c", rest[0]) or one:
        return ""
    begin = re.match(r"\s*(?:exec\s+)?([\w./-]+)(?=\s)", rest[1])
    starter = os.path.basename(begin[1]) if begin else ""
    if starter not in PROGRAMS or line.has("--script"):
        return ""
    problem = f"each rank runs {shell} {rest[0]}, and so starts its own {starter}"
    if starter in _clients():
        return f"{problem}; leave {starter} out, mnrun starts the ranks"
    words = _words(rest[1])
    once = line.with_words("--script", "FILE", command=())
    right = line.with_words(command=words) if words else f"the lines into a file, and run it once: {once}"
    return f"{problem}; write {right}"


def _clients() -> list[str]:
    from mnrun.schedulers import KNOWN

    return [scheduler.STARTER for scheduler in KNOWN.values() if scheduler.STARTER]


def _of_schedulers(table: str) -> dict[str, str]:
    from mnrun.schedulers import KNOWN

    return {word: answer for one in KNOWN.values() for word, answer in getattr(one.FOREIGN, table).items()}


def _words(text: str) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError:
        return ()
    return () if re.search(r"[|&;<>$`*?()\n]", text) else tuple(words[words[0] == "exec" :])


def _names_container(words: Sequence[str]) -> bool:
    return any(word.partition("=")[0] in ("--image", "--runtime") for word in words)


def _is_size(option: Option, words: Sequence[str], given: Collection[str]) -> bool:
    number = re.fullmatch(r"(-\w|-[\w-]+[= ])\d+", " ".join(words))
    return option.name in SIZES and option.name not in given and number is not None


def _parts(words: Sequence[str]) -> Iterator[tuple[Option | None, list[str]]]:
    """Yield each option of mnrun's own with its words, and each other word alone."""
    place = 0
    while place < len(words):
        option = _option(words[place])
        taken = 2 if option is not None and option.takes_value and words[place] in BY_FLAG else 1
        yield option, list(words[place : place + taken])
        place += taken


def _option(word: str) -> Option | None:
    """Return mnrun's option of a word: `--nodes`, `--nodes=2`, `-N`, `-N2`."""
    beside = BY_FLAG.get(word[:2]) if re.match("-[A-Za-z].", word) else None
    return BY_FLAG.get(word.partition("=")[0]) or beside


def _refuse_verb(line: Line, verbs: Collection[str]) -> None:
    word = line.command[0]
    if word not in verbs or line.options or os.path.exists(word):
        return
    if word == "help":
        raise UsageError(f"{line.verb} and help are both verbs", f"write mnrun help {line.verb}")
    problem = f"{line.verb} and {word} are both verbs, and a line has one"
    raise UsageError(problem, f"for a program of that name: mnrun {line.verb} -- {word}")


def _refuse_unquoted(line: Line) -> None:
    """Raise UsageError for `-x NAME=a b -- ./app`: without quotes, b would be the program."""
    behind = line.command[line.command.index("--") + 1 :] if "--" in line.command else ()
    *_, flag, value = ("", "", *line.options)
    if flag not in ("-x", "--env") or "=" not in value or not behind or behind[0].startswith("-"):
        return
    words = line.command[: line.command.index("--")]
    if any(word.startswith("-") for word in words):
        return
    whole = shlex.quote(" ".join((value, *words)))
    raise UsageError(f"{words[0]} after {flag} {value} would be the program", f"quote the value: {flag} {whole}")


def _refuse_job_file(line: Line) -> None:
    word = line.command[0]
    if word.endswith(".toml"):
        raise UsageError(f"{line.job_file} and {word} are both job files", "one job has one file")
    if OTHER_JOB_FILE.fullmatch(word):
        raise UsageError(f"{word} is neither a program nor a job file", "job files are TOML, and end in .toml")


def _refuse_image(line: Line) -> None:
    word, *command = line.command
    if line.has("--image", "--runtime") or not IMAGE.fullmatch(word):
        return
    if "://" not in word and ":" in word and os.path.exists(word):
        return
    if "://" in word and word.partition("://")[0] not in SCHEMES:
        return
    name = f"docker://{word}" if ":" in word and "://" not in word else word
    right = line.with_words("--image", name, command=() if line.verb == "shell" else command or ("./app",))
    raise UsageError(f"{word} is an image, and no program", right)


def _refuse_batch_script(line: Line) -> None:
    from mnrun.schedulers import KNOWN

    word = line.command[0]
    head = _head(word)
    for scheduler in KNOWN.values():
        directive = scheduler.FOREIGN.directive
        if directive and re.search(rf"^{re.escape(directive)}\s", head, re.MULTILINE):
            image = () if line.has("--image") else ("--image", "app.sif")
            once = line.with_words(*image, "--script", word, command=())
            remedy = f"mnrun migrate {word} writes mnrun into it, for {scheduler.SUBMIT}; once in the image: {once}"
            raise UsageError(f"{word} is a batch script, and mnrun reads no {directive} lines", remedy)


def _head(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(16384)
    except (OSError, UnicodeDecodeError):
        return ""


def _refuse_foreign(line: Line) -> None:
    """Raise UsageError for the line of a program that starts ranks or containers, which mnrun does itself."""
    if _runtime(line) == "host":
        return
    first, *rest = line.command
    places = range(len(line.command)) if first in PROGRAMS else range(1)
    place = next((place for place in places if _starts_container(line.command[place:])), None)
    commands = _of_schedulers("commands")
    if place is not None:
        _refuse_container(line, place)
    elif first in _clients() and any(word.startswith("--container-") for word in rest):
        raise UsageError("mnrun starts the ranks itself", f"write mnrun shim -- {shlex.join(line.command)}")
    elif first in _clients():
        image = () if line.has("--image") or any("image" in word for word in rest) else ("--image", "app.sif")
        right = shlex.join((*line.begin, *line.options, *image, *(rest or ("./app",))))
        raise UsageError("mnrun starts the ranks itself", f"leave {first} out: {right}")
    elif first in commands and line.plain:
        raise UsageError(f"{first} inside mnrun would run in the container", commands[first])


def _starts_container(words: Sequence[str]) -> bool:
    """Return whether a line begins with a container's start. A path, such as /usr/bin/docker, is a program like any."""
    verbs = CONTAINERS.get(words[0])
    return verbs is not None and (not verbs or words[1:2] in [(verb,) for verb in verbs])


def _refuse_container(line: Line, place: int) -> None:
    from mnrun.errors import Impossible
    from mnrun.migration import containers, starters

    first, tool = line.command[0], line.command[place]
    what, tools = ("ranks and containers", f"{first} and {tool}") if place else ("the container", tool)
    try:
        ranks = starters.read(line.command[: place + 1]) if place and first not in _clients() else starters.Ranks()
        found = containers.read(line.command[place:])
    except Impossible:
        right = line.with_words(*(() if line.has("--image") else ("--image", "IMAGE")), command=("CMD",))
        raise UsageError(f"mnrun starts {what} itself, without {tools}", f"write {right}; {OURS}") from None
    image = () if line.has("--image") or not found.image else ("--image", found.image)
    right = line.with_words(*ranks.options, *found.options, *image, command=found.command)
    raise UsageError(f"mnrun starts {what} itself, without {tools}", f"write {right}")


def _runtime(line: Line) -> str:
    given = [words[-1].rpartition("=")[2] for option, words in _parts(line.options) if option is BY_FLAG["--runtime"]]
    return given[-1] if given else os.environ.get("MNRUN_RUNTIME", "")


def _refuse_quoted(line: Line) -> None:
    """Raise UsageError for one word with blanks: no shell splits it."""
    word = line.command[0]
    may_be_an_argument = line.job_file or len(line.command) > 1  # a job file may have a script
    if may_be_an_argument or not re.search(r"\S\s+\S", word) or os.path.exists(word):
        return
    if re.search(r"[|&;<>$`*?]", word):
        right = line.with_words(command=("bash", "-c", word))
        raise UsageError(f"{word!r} is one word, and no shell reads it", f"write {right}")
    problem = f"{word!r} is one word, the name of a program"
    raise UsageError(problem, f"leave the quotes out, or write -- bash -c {shlex.quote(word)}")

"""Refuse a command that is not meant as one: an image, a batch script, a container tool, one quoted line."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from mnrun.cli.words import foreign
from mnrun.config.options import BY_FLAG, Option
from mnrun.errors import UsageError
from mnrun.images.reference import SCHEMES
from mnrun.planning.starters import PROGRAMS

IMAGE = re.compile(r".+\.(sif|simg|sqsh|sqfs|squashfs)|[a-z]+://.+|[a-z0-9._/-]+:[A-Za-z0-9][\w.-]*")
OTHER_JOB_FILE = re.compile(r".+\.(ya?ml|json|tml|ini|conf)")
# The commands of Slurm -> the line to write in their place. After -- all but srun are the image's own.
SLURM = {"srun": "{}", "salloc": "salloc -N 2 {}", "sbatch": "mnrun submit --image app.sif -- ./app"}

SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
STARTERS = [name for name, tools in foreign.OWNERS.items() if tools in (foreign.SRUN, foreign.MPI)]

# The options for the size of a job. Behind the program they have no effect.
SIZES = ("nodes", "ntasks", "ntasks_per_node", "cpus_per_task", "gpus_per_node")


@dataclass(frozen=True)
class Line:
    """A typed line in its parts. `plain` says that no -- stands before the command."""

    verb: str
    options: tuple[str, ...]
    command: tuple[str, ...]
    plain: bool
    job_file: str = ""

    @property
    def names(self) -> set[str]:
        """Return the names of mnrun's options in the line, and of a few of their values."""
        return {option.name for option in map(_option, self.options) if option is not None}

    def has(self, *flags: str) -> bool:
        return any(word.partition("=")[0] in flags for word in self.options)

    def with_words(self, *words: str, command: Sequence[str]) -> str:
        """Return the line with more options and another command, for a person to type."""
        verb = () if self.verb == "run" else (self.verb,)
        end = ("--", *command) if command else ()
        return shlex.join(("mnrun", *verb, *self.options, *words, *end))


def refuse(line: Line, verbs: Collection[str]) -> None:
    """Raise UsageError if the command is not meant as one. The words after -- are believed, as far as they can work.

    With --script, the words are the script's arguments, and any words will do.
    """
    if not line.command or line.has("--script"):
        return
    if line.plain:
        _refuse_unquoted(line)
        _refuse_verb(line, verbs)
        _refuse_job_file(line)
        _refuse_image(line)
        _refuse_batch_script(line)
    _refuse_container_tool(line)
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
    found, rest = _sorted(line.command[1:])
    if not _names_container(found):
        return None
    first = line.command[0]
    flag = found[0].partition("=")[0]
    right = line.with_words(*found, command=(first, *rest))
    return UsageError(f"{flag} after {first} is an option of {first}", f"mnrun's own come first: {right}")


def size_behind(line: Line) -> str:
    """Return the warning for a line in which the size of the job stands after the program, or "".

    The program may have such an option. So a line with a --, or with that size in front, gets no warning.
    """
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
    """Return the warning for a line whose program is a shell that begins with mpirun or srun, or "".

    Each rank would start it again. One rank, or a script that runs once, is meant so.
    """
    shell, *rest = line.command or ("",)
    given = {option.name: words for option, words in _parts(line.options) if option is not None}
    one = re.fullmatch(r"-n1|(-n|-np|--ntasks)[= ]1", " ".join(given.get("ntasks", ())))
    if os.path.basename(shell) not in SHELLS or len(rest) != 2 or not re.fullmatch("-[elx]*c", rest[0]) or one:
        return ""
    begin = re.match(r"\s*(?:exec\s+)?([\w./-]+)(?=\s)", rest[1])
    starter = os.path.basename(begin[1]) if begin else ""
    if starter not in STARTERS or line.has("--script"):
        return ""
    problem = f"each rank runs {shell} {rest[0]}, and so starts its own {starter}"
    words = _words(rest[1])
    if starter == "srun":
        meant = foreign.translation(words, line.names)
        right = line.with_words(*meant.options, command=meant.command)
        return f"{problem}; {f'write {right}' if words else 'leave srun out, mnrun starts the ranks'}"
    once = line.with_words("--script", "FILE", command=())
    right = line.with_words(command=words) if words else f"the lines into a file, and run it once: {once}"
    return f"{problem}; write {right}"


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a shell's line, or () if it is more than one plain command."""
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


def _sorted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options of mnrun's own with their values, and the other words."""
    parts = list(_parts(words))
    found = [word for option, part in parts if option is not None for word in part]
    return found, [word for option, part in parts if option is None for word in part]


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
    image = word if "://" in word or ":" not in word else f"docker://{word}"
    if image.partition("://")[0] not in SCHEMES and "://" in image:
        return
    charliecloud = ("--runtime", "charliecloud") if image.endswith(foreign.SQUASHFS) else ()
    right = line.with_words(
        *charliecloud, "--image", image, command=() if line.verb == "shell" else command or ("./app",)
    )
    raise UsageError(f"{word} is an image, and no program", right)


def _refuse_batch_script(line: Line) -> None:
    """Raise UsageError for a file with #SBATCH lines, which would have no effect."""
    word = line.command[0]
    if not re.search(r"^#SBATCH\s", _head(word), re.MULTILINE):
        return
    problem = f"{word} is a batch script, and mnrun reads no #SBATCH lines"
    image = () if line.has("--image") else ("--image", "app.sif")
    once = line.with_words(*image, "--script", word, command=())
    raise UsageError(problem, f"write mnrun into it and use sbatch {word}, or run it once in the image: {once}")


def _head(path: str) -> str:
    """Return the first lines of a file of text, or "" for any other."""
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(16384)
    except (OSError, UnicodeDecodeError):
        return ""


def _refuse_container_tool(line: Line) -> None:
    word, *rest = line.command
    if _runtime(line) == "host":
        return
    meant = foreign.translation(line.command, line.names)
    image = () if line.has("--image") else ("--image", meant.image or "app.sif")
    if meant.contained or word == "srun":
        right = line.with_words(*meant.options, *image, command=meant.command or ("./app",))
        without = f"; this leaves out {', '.join(meant.left_out)}" if meant.left_out else ""
        what = "ranks and containers" if len(meant.tools) > 1 else "the container" if meant.contained else "the ranks"
        raise UsageError(f"mnrun starts {what} itself, without {' and '.join(meant.tools)}", f"write {right}{without}")
    if word in SLURM and line.plain:
        right = line.with_words(*image, command=rest if rest and not rest[0].startswith("-") else ("./app",))
        raise UsageError(f"{word} inside mnrun would run in the container", f"write {SLURM[word].format(right)}")


def _runtime(line: Line) -> str:
    """Return the runtime of the line, or of its variable, or ""."""
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

"""Return the values of settings by their type, and check single values. It needs no cluster."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath

from mnrun.config.layers import Settings
from mnrun.errors import Impossible, UsageError
from mnrun.jobspec import CLAIM, Mount, SiteSettings
from mnrun.model import ULIMITS
from mnrun.planning.starters import BY_SCHEDULER
from mnrun.record import Record


class Surroundings(Record):
    """The facts on the launching process that shape a job."""

    cwd: str
    home: str
    environ: Mapping[str, str]
    env_files: Mapping[str, str]  # path -> text
    umask: str = "0022"
    whys: Mapping[str, str] = {}  # NAME=VALUE -> why
    site: Mapping[str, SiteSettings] = {}  # scheduler -> the site's settings for it
    job_file: str = ""
    hostfile: str | None = None  # its text
    batch: bool = False  # for a batch job, whose variables get their values in the job
    as_given: bool = False  # by a batch script
    in_job: bool = False  # on the nodes of a scheduler's job
    pod: str | None = None  # the working directory of nodes that are containers of the image (Jobs.pod)
    there: Callable[[str], bool] = lambda path: False  # returns whether a path exists on this machine
    link: Callable[[str], str] = lambda path: ""  # returns the target of a symbolic link here, else ""

    def absolute(self, path: str) -> str:
        # Not realpath: the target of a link may differ on the node.
        return os.path.normpath(os.path.join(self.cwd, path))

    def on_nodes(self, path: str) -> str:
        """Return an absolute path of the nodes. In those that are containers of the image, it begins there."""
        return self.absolute(path) if self.pod is None else os.path.normpath(os.path.join(self.pod or "/", path))

    def expanded(self, path: str) -> str:
        """Return a path or a program's name with the home directory for a leading `~/`."""
        return re.sub(r"^~/", lambda _: self.home + "/", path)

    def of_home(self, path: str) -> str:
        return self.absolute(self.expanded(path))

    def behind_links(self, path: str, mounted: Iterable[str]) -> str:
        """Return the first place outside of the `mounted` directories to which links below them lead, or `path`."""
        now = path
        for _ in range(40):  # Linux follows no more (path_resolution(7))
            folder = max((folder for folder in mounted if now.startswith(f"{folder}/")), key=len, default=now)
            steps = (*map(str, reversed(PurePosixPath(now).parents)), now)
            link = next((step for step in steps if len(step) > len(folder) and self.link(step)), "")
            if not link:
                return now
            now = os.path.normpath(os.path.join(os.path.dirname(link), self.link(link), now[len(link) + 1 :]))
        return path

    def real(self, path: str) -> str:
        """Return the path without a link in it."""
        return self.behind_links(path, ("",))

    def mount(self, word: str) -> Mount:
        claimed = CLAIM if word.startswith(CLAIM) else ""
        source, _, rest = word[len(claimed) :].partition(":")
        target, _, options = rest.partition(":")
        if re.fullmatch(r"[\d:,-]+", word):
            raise UsageError(f"--bind {word!r} is not a path", "-B is --bind here")
        each = " ".join(f"-B {part}" for part in word.split(","))
        remedy = f"repeat it: {each}" if "," in word else ""  # Apptainer's --bind takes several
        if not source or (target and not target.startswith("/")) or options not in ("", "ro", "rw"):
            raise UsageError(f"--bind {word!r} is not SRC[:DST[:ro|rw]] with an absolute DST", remedy)
        if re.search(r"[,\x00-\x1f\x7f]", word):  # docker reads a line of CSV
            raise UsageError(
                f"--bind {word!r} has a comma or a control character, which the runtimes cannot mount", remedy
            )
        if claimed:
            if not target or not re.fullmatch(r"[a-z0-9.-]+(/[^/].*)?", source):
                raise UsageError(f"--bind {word!r} is not {CLAIM}CLAIM[/SUBDIRECTORY]:DST with an absolute DST")
            return Mount(CLAIM + source, target, options)
        return Mount(self.absolute(source), target or self.absolute(source), options)


class Values(Record):
    """The settings of a job by the type of their value, and its surroundings."""

    settings: Settings
    around: Surroundings

    def has(self, name: str) -> bool:
        return name in self.settings

    def text(self, name: str) -> str:
        return str(self.settings[name].value) if name in self.settings else ""

    def flag(self, name: str) -> bool:
        return name in self.settings and bool(self.settings[name].value)

    def number(self, name: str) -> int | None:
        value = self.settings[name].value if name in self.settings else None
        return value if isinstance(value, int) else None

    def words(self, name: str) -> tuple[str, ...]:
        value = self.settings[name].value if name in self.settings else ()
        return value if isinstance(value, tuple) else ()

    def path(self, name: str) -> str:
        return self.around.absolute(self.text(name)) if self.text(name) else ""


def gpu_bind(text: str, by_scheduler: bool) -> str:
    """Return the value of --gpu-bind: any for a scheduler's starter, and one that mnrun has too for others."""
    if not text or by_scheduler:
        return text
    if not re.fullmatch(r"none|closest|(single|per_task):[1-9]\d{0,3}", text):
        raise Impossible(
            f"only {BY_SCHEDULER} can do --gpu-bind {text}",
            f"use --launcher {BY_SCHEDULER}, or none, closest, single:RANKS or per_task:GPUS",
        )
    return text


def mpi_args(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the value of --mpi-args. Raise UsageError for a number of ranks, which mnrun itself tells the starter."""
    for word, following in zip(words, (*words[1:], "")):
        flag, _, value = word.partition("=")
        if flag in ("-n", "-np", "--n", "--np", "--ntasks"):
            problem = f"--mpi-args {word}: mnrun itself sets the number of ranks"
            raise UsageError(problem, f"write -n {value or following or 'N'} for mnrun")
    return words


def gpus_each(option: str, text: str) -> str:
    """Return the value of an option for GPUs: `4`, `a100:4`, or `a100:3,h100:5`, which --gpus cannot share out."""
    items = [text] if option == "--gpus" else text.split(",")
    if text and not all(re.fullmatch(r"([^:,]+:)?\d{1,9}", item, re.ASCII) for item in items):
        raise UsageError(f"{option} {text!r} is not [TYPE:]NUMBER")
    return text


def limit(word: str) -> str:
    name, _, value = word.partition("=")
    if name not in ULIMITS or not re.fullmatch(r"\d+|unlimited|hard|soft", value):
        raise UsageError(
            f"--ulimit {word!r} is not NAME=NUMBER or NAME=unlimited", f"NAME is one of {', '.join(ULIMITS)}"
        )
    return word


def stage_limit(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d{0,8}[MGT]|([1-9]\d?|100)%", text, re.ASCII):
        raise UsageError(f"--stage-limit {text!r} is not a size", "write 50G, or 20% for a share of the disk")
    return text


def ports(text: str) -> str:
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if not match or not 1024 <= int(match[1]) <= int(match[2]) <= 65535:
        raise UsageError(f"--ports {text!r} is not FROM-TO with 1024 <= FROM <= TO <= 65535")
    return text


def reach(text: str) -> str:
    if not re.fullmatch(r"[a-z]+|call:[A-Za-z0-9_][A-Za-z0-9_.:-]*", text, re.ASCII):
        raise UsageError(f"--reach {text!r} is neither a word nor call:NAME", "NAME is a host or an address")
    return text

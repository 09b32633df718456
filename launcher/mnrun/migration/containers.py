"""Read the line of a program that starts a container, and say it in mnrun's words. Pure.

Sources: apptainer-exec(1) of 1.4, docker-run(1) of 28, podman-run(1) of 5, shifter(1) of 18.03, ch-run(1) of 0.40, the
manual of Sarus 1.7, and `podman-hpc run --help` of 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mnrun.errors import Impossible
from mnrun.images.reference import is_path
from mnrun.record import Record

_MPI = "the image's own MPI starts the ranks, and no MPI of the node is brought in"
_CLEAN = "mnrun forwards exported variables all the same"


class Tool(Record):
    """A program that starts containers. An option has a fate: the word of mnrun's that it becomes, or one of these:
    `-` not needed, `args` passed on by --container-args, or the name of a method of _Reading."""

    verbs: tuple[str, ...] = ()
    runtime: str = ""  # for --runtime
    stores: bool = False  # whether images have names, and are no files
    letters: Mapping[str, str] = {}
    values: Mapping[str, str] = {}
    flags: Mapping[str, str] = {}
    entry: str = ""  # of `run`: the program of the image that starts the command, or what to say of it


def _fates(text: str) -> dict[str, str]:
    """Return option -> fate of lines `FATE: OPTION…`."""
    lines = (line.partition(":") for line in text.strip().splitlines())
    return {name: fate.strip() for fate, _, names in lines for name in names.split()}


def _letters(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split())


_APPTAINER = Tool(
    verbs=("exec", "run"),
    letters=_letters(
        "B=bind H=home W=workdir S=scratch o=overlay e=cleanenv c=contain C=containall i=ipc p=pid f=fakeroot "
        "u=userns w=writable"
    ),
    values=_fates(
        """
        listed: bind env
        mounted: mount
        -D: pwd cwd
        --env-file: env-file
        -: hostname dns
        args: home workdir scratch overlay fusemount security add-caps drop-caps no-mount app apply-cgroups
        """
    ),
    flags=_fates(
        """
        -: nv ipc pid uts no-eval
        --no-home: no-home
        cleared: cleanenv
        args: rocm contain containall fakeroot userns writable writable-tmpfs compat underlay no-umask nvccli keep-privs
        """
    ),
    entry="/.singularity.d/runscript",
)
_OCI = Tool(
    verbs=("run",),
    runtime="docker",
    stores=True,
    letters=_letters("v=volume w=workdir e=env u=user h=hostname m=memory i=interactive t=tty d=detach"),
    values=_fates(
        """
        -B: volume
        -x: env
        -D: workdir
        mounted: mount
        --env-file: env-file
        entry: entrypoint
        gpus: gpus
        name: name
        me: user
        -: network net ipc shm-size ulimit hostname uts pid log-driver log-opt runtime userns cgroupns
        args: device cap-add cap-drop security-opt group-add tmpfs memory cpus platform add-host sysctl annotation
        """
    ),
    flags=_fates(
        """
        -: rm interactive tty init
        --privileged: privileged
        detached: detach
        args: read-only
        """
    ),
    entry="the image's entry point does not run, only the command",
)
_HPC = {**_OCI.flags, **_fates("-: gpu cvmfs\nmpi: mpi cuda-mpi openmpi-pmi2 openmpi-pmix nccl")}
TOOLS: dict[str, Tool] = {
    "apptainer": _APPTAINER,
    "singularity": _APPTAINER,
    "docker": _OCI,
    "podman": _OCI._replace(runtime="podman"),
    "podman-hpc": _OCI._replace(runtime="podman", verbs=("run", "shared-run"), flags=_HPC),
    "shifter": Tool(
        stores=True,
        letters=_letters("V=volume e=env w=workdir m=module v=verbose i=image"),
        values=_fates("image: image\nsemicolons: volume\n-x: env\n--env-file: env-file\n-D: workdir\nmpi: module"),
        flags=_fates("cleared: clearenv\n-: verbose"),
    ),
    "sarus": Tool(
        verbs=("run",),
        stores=True,
        letters=_letters("w=workdir m=mpi t=tty e=env"),
        values=_fates("mounted: mount\n-D: workdir\n-x: env\nentry: entrypoint\nmpi: mpi-type\n-: device"),
        flags=_fates("-: tty init ssh glibc centralized-repository\nmpi: mpi"),
        entry=_OCI.entry,
    ),
    "ch-run": Tool(
        runtime="charliecloud",
        letters=_letters("b=bind c=cd w=write W=write-fake"),
        values=_fates("-B: bind\n-D: cd\n-x: set-env"),
        flags=_fates("args: write write-fake\n--no-home: no-home"),
    ),
}
_QUIET = re.compile("-[qsdv]|--(quiet|silent|debug|verbose|nocolor)")  # in front of a verb
# What starts a container, in a line of text.
STARTS = "|".join(
    (
        *(rf"{name}\s+(-\S+\s+)*({'|'.join(tool.verbs)}|shell)\b" for name, tool in TOOLS.items() if tool.verbs),
        *(rf"{name}\s+[\w./-]" for name, tool in TOOLS.items() if not tool.verbs),
        r"docker exec\b|enroot start\b",
    )
)
STARTS = rf"(?<![\w/.-])({STARTS})|--(container-(image|name)|environment|edf)\b"


@dataclass
class Container:
    """A container as mnrun has it. `notes` say what is different."""

    options: list[str] = field(default_factory=list)
    image: str = ""
    command: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    name: str = ""
    waits: bool = False  # whether it only waits for commands


def begins(words: Sequence[str]) -> int:
    """Return the number of words that begin a container's start, or 0. A path, such as /usr/bin/docker, is a program
    like any."""
    tool = TOOLS.get(words[0]) if words else None
    if tool is None:
        return 0
    place = 1
    while tool.verbs and place < len(words) and _QUIET.fullmatch(words[place]):
        place += 1
    return 1 if not tool.verbs else place + 1 if words[place : place + 1] and words[place] in tool.verbs else 0


def read(words: Sequence[str], known: Callable[..., str] = lambda text, depth=0: text) -> Container:
    """Return the container of a line. `known` returns a text with the variables in it that are known. Raises Impossible
    for an option that mnrun cannot say."""
    begin = begins(words)
    if not begin:
        raise Impossible(f"{words[0]} is not known", "mnrun run --help-all lists mnrun's options")
    tool = TOOLS[words[0]]
    reading = _Reading(words[0], known)
    rest = list(words[begin:])
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        reading.take(word, rest, tool)
    if tool.values.get("image") != "image":
        if not rest:
            raise Impossible(f"{words[0]} names no image here", "write it as IMAGE")
        reading.found.image = rest.pop(0)
        if rest[:1] == ["--"]:
            rest.pop(0)
    return reading.ended(tool, words[begin - 1], rest)


def entering(words: Sequence[str]) -> Container:
    """Return what a line of `docker exec` has: its options, its command, and the container's name as its image."""
    reading, rest = _Reading(words[0], lambda text, depth=0: text), list(words[2:])
    while rest and rest[0].startswith("-"):
        reading.take(rest.pop(0), rest, TOOLS[words[0]])
    if len(rest) < 2:
        raise Impossible(f"{words[0]} exec names no command here", "write it behind the container's name")
    reading.found.image, reading.found.command = rest[0], tuple(rest[1:])
    return reading.found


class _Reading:
    """Takes one option after another."""

    def __init__(self, program: str, known: Callable[..., str]) -> None:
        self.program, self.known, self.found = program, known, Container()
        self.entry: str | None = None

    def take(self, word: str, rest: list[str], tool: Tool) -> None:
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            letter, attached = word[1:2], word[2:]
            name = tool.letters.get(letter, letter)
            if name in tool.flags and attached:
                rest.insert(0, f"-{attached}")
            equals = value = attached.removeprefix("=") if name in tool.values else ""
        if name in tool.values:
            if not equals and not rest:
                raise Impossible(f"{self.program} {word} has no value", "correct the line")
            self.put(tool.values[name], name, value if equals else rest.pop(0))
        elif name in tool.flags and value in ("", "true"):
            self.put(tool.flags[name], name, "")
        else:
            raise Impossible(f"{self.program} {word} is not known", "mnrun run --help-all lists mnrun's options")

    def put(self, fate: str, name: str, value: str) -> None:
        options = self.found.options
        if fate == "args":
            options.extend(("--container-args", f"--{name}={value}" if value else f"--{name}"))
        elif fate.startswith("--") and not value:
            options.append(fate)
        elif fate.startswith("-") and fate != "-":
            options.extend((fate, value))
        elif fate != "-":
            getattr(self, f"_{fate}")(value)

    def _listed(self, value: str) -> None:
        """Take a list of mounts or of NAME=VALUE, between commas."""
        known = self.known(value, 1) if re.fullmatch("[\ue000-\uf8ff]", value) else ""
        for part in (known if "," in known else value).split(","):
            name = re.match(r"[A-Za-z_]\w*=", part)
            self.found.options.extend(("-x" if name else "-B", part))

    def _semicolons(self, value: str) -> None:
        for part in value.split(";"):
            self.found.options.extend(("-B", part))

    def _mounted(self, value: str) -> None:
        fields = {key: rest for key, _, rest in (part.partition("=") for part in value.split(","))}
        source, target = (
            next((fields[key] for key in keys if key in fields), "")
            for keys in (("source", "src"), ("destination", "target", "dst"))
        )
        odd = {*fields} - {
            "type",
            "source",
            "src",
            "destination",
            "target",
            "dst",
            "ro",
            "readonly",
            "bind-propagation",
        }
        if fields.get("type", "bind") != "bind" or odd or not source:
            raise Impossible(f"{self.program} --mount {value} is no plain mount", "use --bind SRC:DST")
        flags = ":ro" if {"ro", "readonly"} & {*fields} else ""
        self.found.options.extend(("-B", f"{source}:{target or source}{flags}"))

    def _image(self, value: str) -> None:
        self.found.image = value

    def _name(self, value: str) -> None:
        self.found.name = value

    def _entry(self, value: str) -> None:
        self.entry = value

    def _detached(self, _: str) -> None:
        self.found.waits = True

    def _gpus(self, value: str) -> None:
        if value != "all":
            raise Impossible(
                f"{self.program} --gpus {value} chooses GPUs", "leave it out: containers see the job's GPUs"
            )

    def _me(self, value: str) -> None:
        if not re.search("[\ue000-\uf8ff]", value):
            self.found.notes.append(f"programs run as you, and not as {value}")

    def _mpi(self, _: str) -> None:
        self.found.notes.append(_MPI)

    def _cleared(self, _: str) -> None:
        self.found.notes.append(_CLEAN)

    def ended(self, tool: Tool, verb: str, command: Sequence[str]) -> Container:
        """Return the container, with its image as mnrun names it, and its command."""
        found = self.found
        if tool.runtime:
            found.options[:0] = ["--runtime", tool.runtime]
        if verb != "exec" and tool.entry and self.entry is None:
            if tool.entry.startswith("/"):
                command = (tool.entry, *command)
            else:
                found.notes.append(tool.entry)
        found.command = (*((self.entry,) if self.entry else ()), *command)
        if not found.command:
            raise Impossible(f"{self.program} names no command here", "write the image's own command behind the image")
        if found.image:
            found.image = named(found.image, tool.stores, self.program, self.known)
        return found


def named(image: str, stores: bool, program: str, known: Callable[..., str]) -> str:
    """Return an image as mnrun names it: a path that looks like one, or a reference with its scheme."""
    value = known(image)
    scheme, sign, _ = value.partition("://")
    if sign and scheme in ("docker", "oras", "library"):
        return image
    if sign or value.startswith("load/"):
        raise Impossible(f"{program} {value}: mnrun knows no such images", "write docker://NAME:TAG, or a file")
    if not stores:
        return image if is_path(value) or re.match("[\ue000-\uf8ff]", value) else f"./{image}"
    kind, colon, name = value.partition(":")
    if program == "shifter" and colon and kind in ("docker", "id"):
        if kind == "id":
            raise Impossible(f"shifter {value}: mnrun knows no such images", "write docker://NAME:TAG")
        return f"docker://{name}"
    return f"docker://{image}"

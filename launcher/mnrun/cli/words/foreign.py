"""Turn a line of srun, mpirun and a container tool into mnrun's own words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from mnrun.cli.words import tools
from mnrun.cli.words.answers import ANSWERS, SHORT
from mnrun.config.options import BY_FLAG, Option

# The words by which another tool starts a container. A path, such as /usr/bin/docker, is a program like any other.
CONTAINERS = {
    "apptainer": ("exec", "run", "shell"),
    "singularity": ("exec", "run", "shell"),
    "docker": ("run", "exec"),
    "podman": ("run", "exec"),
    "enroot": ("start", "exec"),
    "podman-hpc": ("run", "exec"),
    "shifter": (),  # its words begin with the options
}
# Programs that start ranks or containers -> the tools whose options they have. The first one stands for the others.
SRUN, MPI = ("srun", "sbatch", "pyxis"), ("Open MPI", "MPICH")
OWNERS = {
    "srun": SRUN,
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "prterun", "orterun"), MPI),
    **dict.fromkeys(("apptainer", "singularity"), ("apptainer",)),
    "enroot": ("enroot",),
    **dict.fromkeys(("docker", "podman", "podman-hpc"), ("docker", "podman")),
    "shifter": ("shifter",),
}
# Options of one letter -> the long ones. Those of srun and mpirun that are not here are mnrun's, too.
LETTERS = {
    "apptainer": dict(zip("BCHSWcefinopuw", (
        *("bind", "containall", "home", "scratch", "workdir", "contain", "cleanenv", "fakeroot", "ipc", "net"),
        *("overlay", "pid", "userns", "writable"),
    ))),
    "docker": dict(zip("vwetiupPmhdl", (
        *("volume", "workdir", "env", "tty", "interactive", "user", "publish", "publish-all", "memory", "hostname"),
        *("detach", "label"),
    ))),
    "enroot": {"c": "conf", "e": "env", "m": "mount", "r": "root", "w": "rw"},
    "shifter": {"i": "image", "V": "volume", "w": "workdir", "e": "env", "m": "module"},
    "srun": {"x": "exclude", "B": "extra-node-info", "H": "hold"},
    "Open MPI": {"N": "npernode", "c": "np", "f": "machinefile", "H": "host", "n": "np", "x": "env"},
}  # fmt: skip
# Options that mnrun has by this name, with another meaning.
DIFFERENT = {
    *(("apptainer", "workdir"), ("docker", "label"), ("docker", "mount"), ("apptainer", "mount")),
    *(("Open MPI", "output"), ("Open MPI", "hostfile"), ("srun", "export"), ("shifter", "module")),
}
# Options whose work mnrun does by itself.
NEEDLESS = {("srun", "mpi"), ("docker", "gpus"), ("apptainer", "nv"), ("apptainer", "rocm")}
# Options whose value has several entries -> their separator.
LISTS = {
    ("srun", "container-env"): ",",
    ("srun", "container-mounts"): ",",
    ("apptainer", "bind"): ",",
    ("apptainer", "env"): r",(?=\w+=)",
    ("shifter", "volume"): ";",
}
SQUASHFS = (".sqsh", ".sqfs", ".squashfs")
RAISED = ("memlock", "stack", "nofile")  # limits that mnrun raises itself (clean_env.sh)
PAIRS = ("mca", "gmca", "omca", "gomca", "prtemca", "pmixmca", "genv")  # options with two values
_OWNED = (*tools.TOOLS, tools.ENROOT, tools.SHIFTER)
_OWN = re.compile(r"use (--?[\w-]+) [A-Z:]+")  # an answer that names mnrun's option for a value
_WORDS = re.compile(r"use ((?:--?[\w-]+ ?)+1?)(?:\(Apptainer\))?")  # an answer that has the words


@dataclass
class Translation:
    """A line of mnrun's: its options, the image and the command. `tools` are the programs that it replaces.

    `left_out` has the options for which mnrun has no word. `given` are mnrun's options that the line has already.
    """

    given: Collection[str]
    options: list[str] = field(default_factory=list)
    image: str = ""
    entry: tuple[str, ...] = ()  # docker's --entrypoint, which begins the command
    command: tuple[str, ...] = ()
    tools: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    contained: bool = False

    def take(self, owners: Sequence[str], words: Sequence[str]) -> list[str]:
        """Translate the options at the begin of `words`, and return the words behind them."""
        rest = list(words)
        while rest and re.match("-.", rest[0]):
            word = rest.pop(0)
            if word == "--":
                break
            for name, value in _split(word, owners):
                count = 2 if name in PAIRS else int(value is None and _takes_value(name, owners))
                taken, rest = rest[:count], rest[count:]
                typed = shlex.join([word, *taken])
                done = self._add(owners[0], name, value if value is not None else " ".join(taken))
                self.left_out += [] if done or typed in self.left_out else [typed]
        return rest

    def _add(self, owner: str, name: str, value: str) -> bool:
        """Add mnrun's words for an option, if it needs any. Return whether mnrun does what the option says."""
        answer = ANSWERS.get(name, "")
        alike = (owner, name) not in DIFFERENT
        named = _OWN.fullmatch(answer)
        own = BY_FLAG.get(f"--{name}") or (BY_FLAG.get(named[1]) if named else None)
        if name == "container-image" or (owner, name) == ("shifter", "image"):
            self.image = of_registry(value.removeprefix("docker:") if owner == "shifter" else value)
        elif (owner, name) == ("docker", "entrypoint") and not value.startswith("["):
            self.entry = (value,) if value else ()
        elif (owner, name) == ("docker", "ulimit"):
            return value.partition("=")[0] in RAISED
        elif name == "genv":
            self.options += ["-x", value.replace(" ", "=", 1)]
        elif own is not None and alike and (owner, name) not in NEEDLESS:
            for entry in re.split(LISTS[owner, name], value) if (owner, name) in LISTS else [value]:
                self._own(own, entry)
        elif alike and (words := _WORDS.fullmatch(answer)):
            self.options += words[1].split()
        elif owner == "apptainer" and alike and not answer and (owner, name) not in NEEDLESS:
            self.options += ["--container-args", f"--{name}={value}" if value else f"--{name}"]
        elif owner == "Open MPI" and alike and (not answer or name in PAIRS):
            self.options += ["--mpi-args", f"--{name} {value}".rstrip()]
        else:
            return (owner, name) in NEEDLESS or answer.startswith("leave it out: ")
        return True

    def _own(self, option: Option, value: str) -> None:
        value = _mount(value) if option.name == "bind" else value
        if option.repeats or option.name not in self.given:
            self.options += [option.flags[0], value] if option.takes_value else [option.flags[0]]


def translation(words: Sequence[str], given: Collection[str]) -> Translation:
    """Return the line that does what these words do: [srun …] [mpirun …] [TOOL exec … IMAGE] COMMAND…"""
    result = Translation(given)
    rest = list(words)
    while rest and rest[0] in OWNERS and not result.contained:
        tool, verb = rest[0], rest[1] if len(rest) > 1 else ""
        begins = tool == "shifter"
        result.contained = begins or verb in CONTAINERS.get(tool, ())
        if tool in CONTAINERS and not result.contained:
            break
        result.tools.append(f"{tool} {verb}" if result.contained and not begins else tool)
        rest = result.take(OWNERS[tool], rest[2 if result.contained and not begins else 1 :])
        if result.contained and rest and not begins:
            named = rest.pop(0)  # enroot's is the name of an unpacked image
            result.image = (
                "" if tool == "enroot" else named if tool in ("apptainer", "singularity") else of_registry(named)
            )
    result.command = (*result.entry, *rest)
    if result.image.endswith(SQUASHFS) and "runtime" not in given:
        result.options += ["--runtime", "charliecloud"]  # Apptainer takes SIF files
    return result


def _mount(word: str) -> str:
    """Return a mount of another tool's without the options that mnrun has not: docker's `:ro,Z`, or pyxis's `:ro+x`."""
    source, target, options = (*word.split(":", 2), "", "")[:3]
    kept = next((option for option in re.split("[,+]", options) if option in ("ro", "rw")), "")
    return ":".join(filter(None, (source, target, kept)))


def of_registry(image: str) -> str:
    """Return an image of pyxis or docker as mnrun names it."""
    if re.match(r"[./~]|[a-z]+://[^#]*$", image) or image.endswith(".sqsh"):
        return image
    return f"docker://{image.partition('://')[2] or image}".replace("#", "/")


def _split(word: str, owners: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return (long name, value) of each option in a word. The value is None if it may be the next word."""
    flag, equals, value = word.partition("=")
    name = {"-env": "genv"}.get(flag, flag.lstrip("-"))
    if word.startswith("--") or (owners == MPI and len(name) > 1 and (_known(name, owners) or flag in BY_FLAG)):
        long = BY_FLAG[flag].name.replace("_", "-") if flag in BY_FLAG and not word.startswith("--") else name
        return [(long, value if equals else None)]
    found: list[tuple[str, str | None]] = []
    for place, letter in enumerate(word[1:], 1):
        name, attached = _long(letter, owners), word[place + 1 :]
        if attached and _takes_value(name, owners):
            return [*found, (name, attached.removeprefix("="))]
        found.append((name, None))
    return found


def _long(letter: str, owners: Sequence[str]) -> str:
    """Return the long name of an option of one letter."""
    if letter in LETTERS[owners[0]]:
        return LETTERS[owners[0]][letter]
    own = BY_FLAG.get(f"-{letter}") if owners in (SRUN, MPI) else None
    return own.name.replace("_", "-") if own else SHORT.get(f"-{letter}", ("", letter))[1]


def _known(name: str, owners: Sequence[str]) -> bool:
    return any(tool.has(name) for tool in _OWNED if tool.name in owners)


def _takes_value(name: str, owners: Sequence[str]) -> bool:
    of_tool = next((tool for tool in _OWNED if tool.name in owners and tool.has(name)), None)
    own = BY_FLAG.get(f"--{name}")
    return name in of_tool.values if of_tool else own is not None and own.takes_value

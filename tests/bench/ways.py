"""The ways to start ranks that are compared, as words, and the targets that they are to meet. Starts nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rehearsal.errors import Unable

HELLO = "/opt/mpi/hello"
SIF = "/images/ompi5.sif"
APPTAINER = ("apptainer", "-s", "exec")
# runtime -> its image, and the words that run `true` in a container of it
IMAGES = {
    "apptainer": SIF,
    "docker": "localhost/ompi5",
    "podman": "localhost/ompi5",
    "charliecloud": "/images/ompi5",
    "host": "",
}
# Where the rehearsal cluster keeps podman's images for alice.
_STORE = "/tmp/mnrun-podman.1500"
# Podman leaves a process behind that holds its namespaces.
_PODMAN = f"""
XDG_RUNTIME_DIR={_STORE}/user podman --storage-driver=overlay --root {_STORE}/root --runroot {_STORE}/run \\
    --tmpdir {_STORE}/tmp run --rm --network=host --ipc=host --userns=keep-id --cgroups=disabled {IMAGES["podman"]} true
kill $(cat {_STORE}/user/libpod/tmp/pause.pid {_STORE}/tmp/pause.pid 2>/dev/null)
"""
EMPTY = {
    "apptainer": (*APPTAINER, SIF, "true"),
    "docker": ("docker", "run", "--rm", "--network=host", "--ipc=host", IMAGES["docker"], "true"),
    "podman": ("sh", "-ec", _PODMAN),
    "charliecloud": ("ch-run", IMAGES["charliecloud"], "--", "true"),
    "host": ("true",),
}
OUTPUT = "/home/alice/bench.out"  # the output of the submitted job
# What may stand between braces in a line of the user's own.
BLANKS = ("nodes", "ranks", "ranks_per_node", "image", "program")
_BLANK = re.compile(r"(?<!\$)\{(\w+)\}")


@dataclass(frozen=True)
class Size:
    """A number of nodes, and the ranks on each of them."""

    nodes: int
    ranks: int

    @property
    def tasks(self) -> int:
        return self.nodes * self.ranks

    def __str__(self) -> str:
        return f"{self.nodes}x{self.ranks}"


@dataclass(frozen=True)
class Target:
    """The most that a way may cost: wall time and CPU time as ratios to the least, and forks on each node."""

    wall: float = 0
    cpu: float = 0
    forks: int = 0


@dataclass(frozen=True)
class Way:
    """A command, and the place where it is typed. The costs of the two `least` ones add up to the least.

    `place` is "job" (in an allocation), "login" (outside of any), "node" (on the first node, outside of any), or
    "engine" (in a job of the second cluster, under Grid Engine). `beside` names the way that `target` compares it
    with, in place of the least.
    """

    name: str
    words: tuple[str, ...]
    place: str = "job"
    least: bool = False
    ranks: bool = True  # each rank says who it is
    output: str = ""  # the file with its output, in place of standard output
    target: Target = Target()
    beside: str = ""


PIPE = Target(1.25, 1.3, 40)
SSH = Target(1.5, 0, 90)
OUTSIDE = Target(1.25, 0, 40)
LOCAL = Target(1.5)
ENGINE = Target(1.3)


def of_cluster(size: Size, runtime: str = "apptainer") -> list[Way]:
    """Return the ways to start ranks on the nodes of a scheduler."""
    shape = (f"-N{size.nodes}", f"-n{size.nodes}", "--ntasks-per-node=1")
    return [
        Way("bare mpirun", ("mpirun", HELLO), least=True),
        # With Slurm's default fence, MPI_Init of Open MPI 5.0.7 crashes in one of ten starts.
        Way("bare srun", ("env", "SLURM_PMIX_FENCE=ring", "srun", "--mpi=pmix", HELLO)),
        Way("one container per node", ("srun", *shape, *EMPTY[runtime]), least=True, ranks=False),
        *(_by_hand() if runtime == "apptainer" else []),
        _mnrun("mnrun, pipe", runtime, "--mode", "inside-out", "--connect", "pipe", target=PIPE),
        _mnrun("mnrun, ssh", runtime, "--mode", "inside-out", "--connect", "ssh", target=SSH),
        _mnrun("mnrun, outside-in, mpirun", runtime, *_outside("mpirun"), target=OUTSIDE),
        _mnrun("mnrun, outside-in, srun", runtime, *_outside("srun"), target=OUTSIDE),
        _submitted(size, runtime),
    ]


def of_user(lines: Sequence[str], size: Size, runtime: str = "apptainer") -> list[Way]:
    """Return the ways of the user's own, each a text NAME=WORDS. Raises Unable for one that is none."""
    values = (size.nodes, size.tasks, size.ranks, IMAGES[runtime], HELLO)
    filled = dict(zip(BLANKS, map(str, values)))
    taken = {"the least", *(way.name for way in of_cluster(size, runtime))}
    ways = []
    for line in lines:
        name, words = _split(line)
        if name in taken:
            raise Unable(f"--way: there is a way {name} already; choose another name")
        taken.add(name)
        ranks = "{program}" in line
        ways.append(Way(name, tuple(_BLANK.sub(lambda blank: filled[blank[1]], word) for word in words), ranks=ranks))
    return ways


def _split(line: str) -> tuple[str, list[str]]:
    name, _, text = line.partition("=")
    if not re.fullmatch(r"[^|\s]([^|\n]*[^|\s])?", name) or not text.strip():
        raise Unable(f"--way {line!r} is no way; write NAME='WORDS', as pyxis='srun … {{program}}'")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Unable(f"--way {name}: {str(error).lower()}; the line is {text}") from None
    unknown = [blank for blank in _BLANK.findall(text) if blank not in BLANKS]
    if unknown:
        known = ", ".join(f"{{{blank}}}" for blank in BLANKS)
        raise Unable(f"--way {name}: {{{unknown[0]}}} stands for nothing; there are {known}")
    return name, words


def of_engine(ways: Sequence[Way]) -> list[Way]:
    """Return the same launches under Grid Engine of those of `ways` that it has."""
    return [
        replace(way, name=f"{way.name}, Grid Engine", place="engine", target=ENGINE, beside=way.name)
        for way in ways
        if way.place == "job" and way.words[0] == "mnrun" and "srun" not in way.words
    ]


def _by_hand() -> list[Way]:
    agent = ("--prtemca", "prte_launch_agent", f"apptainer -s exec {SIF} prted")
    return [
        Way("by hand, container per rank", ("mpirun", *APPTAINER, SIF, HELLO)),
        Way("by hand, --sharens", ("mpirun", *APPTAINER, "--sharens", SIF, HELLO)),
        Way("by hand, launch agent", ("mpirun", *agent, HELLO)),
    ]


def of_machine(size: Size, runtime: str = "apptainer") -> list[Way]:
    """Return the ways to start the ranks of one machine without a scheduler."""
    count = ("-n", str(size.ranks))
    return [
        Way("bare mpirun", ("mpirun", *count, HELLO), "node", least=True),
        Way("one container", EMPTY[runtime], "node", least=True, ranks=False),
        _mnrun("mnrun --local", runtime, "--local", *count, place="node", target=LOCAL),
    ]


def _outside(launcher: str) -> tuple[str, ...]:
    return ("--mode", "outside-in", "--launcher", launcher)


def _mnrun(name: str, runtime: str, *words: str, place: str = "job", target: Target) -> Way:
    return Way(name, ("mnrun", "-Q", *words, *box(runtime), "--", HELLO), place, target=target)


def _submitted(size: Size, runtime: str) -> Way:
    asked = (f"-N{size.nodes}", f"--ntasks-per-node={size.ranks}", "-o", OUTPUT, "--connect", "pipe")
    words = ("mnrun", "submit", "--wait", *asked, "--mode", "inside-out", *box(runtime), "--", HELLO)
    return Way("mnrun submit, pipe", words, "login", output=OUTPUT)


def box(runtime: str) -> tuple[str, ...]:
    """Return the words of mnrun for a runtime and its image."""
    image = ("--image", IMAGES[runtime]) if IMAGES[runtime] else ()
    return ("--runtime", runtime, *image)


def chosen(ways: Sequence[Way], names: Sequence[str]) -> list[Way]:
    """Return those whose name has one of the texts in it, and the least. All of them, if there is no text."""
    return [way for way in ways if not names or way.least or any(name in way.name for name in names)]

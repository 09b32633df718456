"""The ways to run the program that are compared with a bare `mpirun`, as words. Starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ways import Size, box

PROGRAM = "/opt/mpi/speed"
PLACES = (Size(1, 2), Size(2, 1))  # two ranks on one node, and on two
RUNTIMES = ("host", "apptainer", "docker", "podman", "charliecloud")
SSH = "inside-out, ssh"
MODES = {
    "inside-out, pipe": ("--mode", "inside-out", "--connect", "pipe"),
    SSH: ("--mode", "inside-out", "--connect", "ssh"),
    "outside-in, mpirun": ("--mode", "outside-in", "--launcher", "mpirun"),
    "outside-in, srun": ("--mode", "outside-in", "--launcher", "srun"),
}


@dataclass(frozen=True)
class Way:
    """A command, and its name in the tables."""

    name: str
    words: tuple[str, ...]


BARE = Way("bare mpirun", ("mpirun", PROGRAM))
# What the instrument itself does not tell apart, and what it must.
AGAIN = Way("bare mpirun once more", BARE.words)
TWO_COPIES = Way("bare mpirun without single copy", ("mpirun", "--mca", "smsc", "^cma", PROGRAM))


def ways(size: Size, runtimes: Sequence[str]) -> list[Way]:
    """Return the ways that are compared with BARE: two of its own, and each runtime in each mode, ssh in one alone."""
    own = [AGAIN, *([TWO_COPIES] if size.nodes == 1 else [])]
    return own + [
        Way(f"{runtime}, {mode}", ("mnrun", "-Q", *words, *box(runtime), "--", PROGRAM))
        for runtime in runtimes
        for mode, words in MODES.items()
        if mode != SSH or runtime == "apptainer"  # it differs in how daemons start, and not in where ranks run
    ]

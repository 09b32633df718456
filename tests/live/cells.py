"""The ways to start a job, and which of their combinations a run of the tests takes.

By default every pair of values is met at least once, or where that is enough every value; with --full
(or MNRUN_TEST_FULL=1) every cell is run.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

IMAGES = {name: f"/images/{name}.sif" for name in ("ompi5", "ompi4", "mpich", "nosshd")}
OMPI5, OMPI4, MPICH, NOSSHD = IMAGES.values()
HELLO = "/opt/mpi/hello"
# A runtime that is added stands here, and in the tests that list only some of them.
ENGINES = ("docker", "podman")
MADE = (*ENGINES, "charliecloud")  # their images are made for these tests
RUNTIMES = ("apptainer", *MADE, "host")

Cell = tuple[str, ...]
Group = tuple[tuple[int, str], ...]
T = TypeVar("T")


@dataclass(frozen=True)
class Way:
    """A way to start ranks: who does it, in which image ("host" is no container at all)."""

    start: str  # inside (the image's mpirun), mpirun (the host's) or srun
    image: str
    per: str = "auto"
    runtime: str = ""  # "" is Apptainer
    connect: str = "auto"

    @property
    def words(self) -> list[str]:
        return [*self._start(), *self._image()]

    def _start(self) -> list[str]:
        if self.start == "inside":
            return ["--mode", "inside-out", *([] if self.connect == "auto" else ["--connect", self.connect])]
        per = [] if self.per == "auto" else ["--container-per", self.per]
        pmi = ["--mpi", "pmi2" if self.start == "srun" else "mpich"] if self.image == "mpich" else []
        return ["--mode", "outside-in", "--launcher", self.start, *pmi, *per]

    def _image(self) -> list[str]:
        if self.image == "host":
            return ["--runtime", "host"]
        if not self.runtime:
            return ["--image", IMAGES[self.image]]
        image = {"charliecloud": f"/images/{self.image}", "singularity": IMAGES[self.image]}
        return ["--runtime", self.runtime, "--image", image.get(self.runtime, f"localhost/{self.image}")]

    def __str__(self) -> str:
        per = [] if self.per == "auto" else [f"per.{self.per}"]
        runtime = [self.runtime] if self.runtime else []
        connect = [] if self.connect == "auto" else [self.connect]
        return "-".join([self.start, self.image, *per, *runtime, *connect])


def possible(start: str, image: str, per: str = "auto") -> bool:
    """Whether such a job can run: mpirun of the nodes is Open MPI's; only outside-in has containers per rank."""
    if start == "mpirun" and image == "mpich":
        return False
    return per == "auto" or (start != "inside" and image != "host")


INSIDE, MPIRUN, SRUN = Way("inside", "ompi5"), Way("mpirun", "ompi5"), Way("srun", "ompi5")
MAIN = (INSIDE, MPIRUN, SRUN)
SSH = Way("inside", "ompi4", connect="ssh")
WAYS = tuple(
    Way(start, image, connect=connect)
    for start, connect in (("inside", "auto"), ("inside", "ssh"), ("mpirun", "auto"), ("srun", "auto"))
    for image in ("ompi5", "ompi4", "mpich", "host")
    if possible(start, image)
)


def full() -> bool:
    return os.environ.get("MNRUN_TEST_FULL", "") not in ("", "0")


def cells(
    axes: Mapping[str, Sequence[str]],
    valid: Callable[..., bool] = lambda **_: True,
    always: Sequence[Cell] = (),
    together: int = 2,
) -> list[Cell]:
    """The cells to run: `always`, then as few as bring together any `together` values that can meet."""
    every = [cell for cell in itertools.product(*axes.values()) if valid(**dict(zip(axes, cell)))]
    if full():
        return every

    def groups(cell: Cell) -> set[Group]:
        return set(itertools.combinations(enumerate(cell), together))

    chosen = list(always)
    open_groups = set().union(*map(groups, every)).difference(*map(groups, chosen))
    while open_groups:
        used = Counter(value for cell in chosen for value in enumerate(cell))
        best = max(
            every, key=lambda cell: (len(open_groups & groups(cell)), -sum(used[value] for value in enumerate(cell)))
        )
        chosen.append(best)
        open_groups -= groups(best)
    return chosen


def some(every: Sequence[T], few: Sequence[T]) -> Sequence[T]:
    """Return all of them with --full, else a few."""
    return every if full() else few


def one(number: int, every: Sequence[T]) -> Sequence[T]:
    """Return all of them with --full; else the one whose turn it is."""
    return turn(number, every, [], every)


def turn(number: int, every: Sequence[T], each: Sequence[T], *others: Sequence[T]) -> Sequence[T]:
    """All of them with --full; else `each`, and of each of the others the one whose turn it is."""
    return some(every, [*each, *(one[number % len(one)] for one in others)])

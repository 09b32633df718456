"""Read the facts on the MPIs of a node and an image (wrappers/probe/mpi_node.sh). Reads no file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mnrun.facts import Fact, values
from mnrun.mpi import MPIS
from mnrun.record import Record


class Installation(Record):
    """An MPI of a node or an image: its name among MPIS (or hangs, unknown), its version, its mpirun."""

    kind: str
    version: str
    path: str

    def __str__(self) -> str:
        if self.kind not in MPIS:
            return f"{self.path}, which {'hangs' if self.kind == 'hangs' else 'is no MPI that mnrun knows'}"
        return f"{MPIS[self.kind].NAME} {self.version}".strip() + f" ({self.path})"


class Side(Record):
    """The facts on a node or an image: its MPIs in the order of PATH, and the versions of their dependencies."""

    mpis: tuple[Installation, ...] = ()
    values: Mapping[str, str] = {}

    def has(self, kind: str) -> Installation | None:
        return next((mpi for mpi in self.mpis if mpi.kind == kind), None)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(mpi.kind for mpi in self.mpis if mpi.kind in MPIS)

    @property
    def pmix(self) -> str:
        return number(self.values.get("pmix", ""))


class MpiFacts(Record):
    """The facts on both sides, and the plugins that the scheduler offers on that node."""

    node: Side
    image: Side
    offers: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()  # listed, and impossible to load

    @property
    def offered(self) -> str:
        """Return `offers` in words."""
        words = ", ".join(self.offers) or "neither pmix nor pmi2"
        unloaded = f"; {', '.join(self.broken)} {'is' if len(self.broken) == 1 else 'are'} listed and cannot be loaded"
        return f"--mpi offers {words}{unloaded if self.broken else ''}"

    @property
    def silent(self) -> str:
        """Return why the image did not answer."""
        return self.node.values.get("silent", "")


def mpi_facts(facts: Sequence[Fact]) -> MpiFacts | None:
    """Return the facts on both sides, or None if the node reported none."""
    node, image = _side(facts, "node"), _side(facts, "image")
    if not any((node.mpis, node.values, image.mpis, image.values)):
        return None
    words = dict.fromkeys(node.values.get("starts", "").split())
    plugins = [word for word in words if re.fullmatch(r"pmix(_v\d+)?|pmi2", word)]
    broken = tuple(word for word in plugins if word in node.values.get("unloadable", "").split())
    return MpiFacts(node, image, tuple(word for word in plugins if word not in broken), broken)


def _side(facts: Sequence[Fact], subject: str) -> Side:
    found = (fact.value.split(maxsplit=2) for fact in facts if (fact.subject, fact.name) == (subject, "mpi"))
    mpis = tuple(_mpi(*words) for words in found if len(words) > 1)  # a broken line may lack the path
    return Side(mpis, {name: value for name, value in values(facts, subject).items() if name != "mpi"})


def _mpi(kind: str, path: str, version: str = "") -> Installation:
    return Installation(kind, number(re.sub(r".*?(\(Open MPI\)|Version:?)", "", version, count=1)), path)


def number(version: str) -> str:
    """Return the number in a version's text, or ""."""
    match = re.search(r"\d+(\.\d+)+", version)
    return match[0] if match else ""

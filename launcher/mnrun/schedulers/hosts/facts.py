"""Read the facts that a host without a scheduler reports (wrappers/probe/host_facts.sh). Reads no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnrun.facts import Fact, values
from mnrun.model import Words


@dataclass(frozen=True)
class HostFacts:
    """The facts of a host."""

    cpus: int = 1
    gpus: int = 0
    busy: Words = ()  # a GPU and the process on it
    # A text that tells the image's file from a copy, "" without a file, "directory" for a tree.
    image: str = ""
    size: int = 0
    home: str = ""


def host_facts(facts: Sequence[Fact]) -> HostFacts:
    """Return the facts of the host that reported them."""
    texts = values(facts, "node")
    numbers = {name: int(text) for name, text in texts.items() if text.isdecimal()}
    return HostFacts(
        numbers.get("cpus", 1),
        numbers.get("gpus", 0),
        tuple(fact.value for fact in facts if (fact.subject, fact.name) == ("node", "busy")),
        texts.get("image", ""),
        numbers.get("size", 0),
        texts.get("home", ""),
    )

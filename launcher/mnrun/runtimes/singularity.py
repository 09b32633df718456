"""SingularityCE, or Apptainer under its older name.

Both take Apptainer's words, but SingularityCE has no --sharens. So each rank has a container of its own.
"""

from __future__ import annotations

from mnrun.model import Box, Words
from mnrun.runtimes import apptainer
from mnrun.runtimes.apptainer import ADVERB, APART, CONTAINED, FILES, NAMED, TRIED, USERS, address, refuse

BINARY = "singularity"

__all__ = [
    "ADVERB",
    "APART",
    "BINARY",
    "CONTAINED",
    "FILES",
    "NAMED",
    "TRIED",
    "USERS",
    "address",
    "ask",
    "node",
    "rank",
    "refuse",
]


def node(box: Box) -> Words:
    return (BINARY, *apptainer.node(box)[1:])


def rank(box: Box) -> Words:
    return (BINARY, *apptainer.rank(box)[1:])


def ask(box: Box) -> Words:
    return (BINARY, *apptainer.ask(box)[1:])

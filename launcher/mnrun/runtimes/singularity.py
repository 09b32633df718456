"""SingularityCE, or Apptainer under its older name.

Both take Apptainer's words, but SingularityCE has no --sharens. So each rank has a container of its own.
"""

from __future__ import annotations

from mnrun.model import Container, Words
from mnrun.runtimes import apptainer
from mnrun.runtimes.apptainer import (
    ADVERB,
    CONTAINED,
    HAS_STORE,
    NEEDS_PASSWD,
    NEEDS_TRIAL,
    OWN_USER_NAMESPACE,
    PASSES_OPEN_FILES,
    address,
)

BINARY = "singularity"


def node(container: Container) -> Words:
    return (BINARY, *apptainer.node(container)[1:])


def rank(container: Container) -> Words:
    return (BINARY, *apptainer.rank(container)[1:])


def ask(container: Container) -> Words:
    return (BINARY, *apptainer.ask(container)[1:])

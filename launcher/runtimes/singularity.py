"""Apptainer under its older name, and SingularityCE, which takes the same words."""

from __future__ import annotations

from ..model import Box, Words
from . import apptainer
from .apptainer import ADVERB, APART, CONTAINED, FILES, NAMED, SHARES, USERS, address, refuse

BINARY = "singularity"

__all__ = [
    "ADVERB",
    "APART",
    "BINARY",
    "CONTAINED",
    "FILES",
    "NAMED",
    "SHARES",
    "USERS",
    "address",
    "node",
    "rank",
    "refuse",
]


def node(box: Box) -> Words:
    return (BINARY, *apptainer.node(box)[1:])


def rank(box: Box, shared: bool) -> Words:
    return (BINARY, *apptainer.rank(box, shared)[1:])

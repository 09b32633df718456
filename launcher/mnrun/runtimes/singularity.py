"""Apptainer under its older name, and SingularityCE, which takes the same words."""

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
    "hold",
    "join",
    "node",
    "rank",
    "refuse",
]


def node(box: Box) -> Words:
    return (BINARY, *apptainer.node(box)[1:])


def rank(box: Box) -> Words:
    return (BINARY, *apptainer.rank(box)[1:])


def hold(box: Box) -> Words:
    return (BINARY, *apptainer.hold(box)[1:])


def join(box: Box) -> Words:
    return (BINARY, *apptainer.join(box)[1:])

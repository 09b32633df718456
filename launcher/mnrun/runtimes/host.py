"""Run programs without a container, for debugging and for runs on bare metal."""

from __future__ import annotations

from mnrun.errors import LaunchError
from mnrun.model import Box, Words

BINARY = ""
CONTAINED = False
NAMED = False
ADVERB = "gpus.sh"
APART = False
FILES = True
USERS = False
TRIED = False


def node(box: Box) -> Words:
    return ()


def rank(box: Box) -> Words:
    return ()


def ask(box: Box) -> Words:
    return ()


def refuse(reference: str) -> LaunchError | None:
    return None


def address(reference: str) -> str:
    return ""

"""mnrun: one command that runs a multi-node job in containers. From Python, `mnrun.Job` plans, runs and submits, and
`mnrun.map` calls a function with many values."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mnrun.api import Job, SubmittedJob
    from mnrun.api.mapping import map

__all__ = ["Job", "SubmittedJob", "map"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the interface at its first use, since the command line does without it (PEP 562)."""
    if name in ("Job", "SubmittedJob"):
        return getattr(importlib.import_module("mnrun.api"), name)
    if name == "map":
        return importlib.import_module("mnrun.api.mapping").map
    raise AttributeError(f"module 'mnrun' has no attribute {name!r}")

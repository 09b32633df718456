"""mnrun: one command that runs a multi-node job in containers. From Python, `mnrun.Job` plans, runs and submits."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the interface at its first use, since the command line does without it (PEP 562)."""
    if name in ("Job", "SubmittedJob"):
        return getattr(importlib.import_module("mnrun.api"), name)
    raise AttributeError(f"module 'mnrun' has no attribute {name!r}")

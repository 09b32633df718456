"""mnrun: one command that runs a multi-node job in containers. From Python, `mnrun.Job` plans, runs and submits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mnrun.api import Job as Job
    from mnrun.api import SubmittedJob as SubmittedJob

__version__ = "0.1.0"
__all__ = ["Job", "SubmittedJob", "__version__"]


def __getattr__(name: str) -> object:
    """Import the interface at its first use, since the command line does without it (PEP 562)."""
    if name in ("Job", "SubmittedJob"):
        from mnrun import api

        return getattr(api, name)
    raise AttributeError(f"module 'mnrun' has no attribute {name!r}")

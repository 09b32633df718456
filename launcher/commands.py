"""A short command of the scheduler's, bounded in time."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from .errors import SchedulerError


def run(
    words: Sequence[str], seconds: float, environ: Mapping[str, str] | None = None, *, instead: str = "use --local"
) -> subprocess.CompletedProcess[str]:
    """How it ended and what it said. Raises SchedulerError where it is not there (do something `instead`), or takes
    too long."""
    try:
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            env=environ,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise SchedulerError(f"{words[0]} is not on PATH", f"load Slurm's module, or {instead}") from None
    except subprocess.TimeoutExpired:
        raise SchedulerError(
            f"{words[0]} did not answer within {seconds:.0f} s", "ask the cluster's admins about slurmctld"
        ) from None

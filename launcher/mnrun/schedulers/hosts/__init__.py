"""Hosts without a scheduler, reached by ssh or pdsh. The names of this package are those of Scheduler."""

from mnrun.schedulers.hosts.names import (
    CLIENT,
    LIMITS,
    NUMBERS,
    SIGNALS,
    client_environment,
    launch_environment,
    reach,
)
from mnrun.schedulers.unwatched import ENDS, end, ending, name, on_each, preempted, runs, why_down

__all__ = ["CLIENT", "LIMITS", "NUMBERS", "SIGNALS", "client_environment", "launch_environment", "reach"]
__all__ += ["ENDS", "end", "ending", "name", "on_each", "preempted", "runs", "why_down"]

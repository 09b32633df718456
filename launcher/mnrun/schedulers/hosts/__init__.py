"""Hosts without a scheduler, reached by ssh or pdsh. The names of this package are those of Scheduler."""

from mnrun.schedulers.hosts.steps import (
    CLIENT,
    LIMITS,
    NUMBERS,
    SIGNALS,
    beside,
    client_environment,
    command,
    launch_environment,
)
from mnrun.schedulers.unwatched import (
    ENDS,
    end,
    ending,
    name,
    on_each,
    preempted,
    runs,
    started_anew,
    time_limit,
    why_down,
)

__all__ = ["CLIENT", "LIMITS", "NUMBERS", "SIGNALS", "beside", "client_environment", "command"]
__all__ += ["launch_environment"]
__all__ += ["ENDS", "end", "ending", "name", "on_each", "preempted", "runs", "started_anew", "time_limit", "why_down"]

"""The schedulers: which nodes we hold, and how a step gets to them.

A scheduler is a module with these names; adding one is one file and one line below.

    reach(where, plan, site) -> words     what stands in front of a step's words; `{node}` repeats
    launch_environment(plan, site)        what the host's mpirun must see, as variables
    client_environment(environ, plan)     the environment of the steps' own clients
"""

from __future__ import annotations

from types import ModuleType

from mnrun.schedulers import local
from mnrun.schedulers.hosts import names
from mnrun.schedulers.slurm import steps

SCHEDULERS: dict[str, ModuleType] = {"slurm": steps, "hosts": names, "local": local}

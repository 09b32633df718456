"""Hold the table of schedulers, and choose the one of a process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TypeVar, cast

from mnrun.schedulers import flux, kubernetes, lsf, pbs, sge, slurm
from mnrun.schedulers.protocols import BatchScheduler, Front, Known, Scheduler, Texts

T = TypeVar("T")


class Lazy(Mapping[str, T]):
    """Schedulers by their names. Each is imported when it is first asked for."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules

    def __getitem__(self, name: str) -> T:
        return cast(T, import_module(self._modules[name]))

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


KNOWN: dict[str, Known] = {"slurm": slurm, "sge": sge, "pbs": pbs, "lsf": lsf, "flux": flux, "kubernetes": kubernetes}
_WHOLE = {name: f"mnrun.schedulers.{name}.scheduler" for name in KNOWN}
BATCH: Mapping[str, BatchScheduler] = Lazy(_WHOLE)
SCHEDULERS: Mapping[str, Scheduler] = Lazy(
    {**_WHOLE, "hosts": "mnrun.schedulers.hosts", "local": "mnrun.schedulers.local"}
)
TEXTS: Mapping[str, Texts] = Lazy({"kubernetes": "mnrun.schedulers.kubernetes.yamltext"})
FRONTS: Mapping[str, Front] = Lazy({"slurm": "mnrun.schedulers.slurm.pyxis"})
VARIABLES = tuple(scheduler.VARIABLES for scheduler in KNOWN.values())
OWN = {scheduler.OPTION.name: scheduler.OPTION for scheduler in KNOWN.values()}
# Chosen by its name alone, since many machines have its program. Its jobs have names for ids.
NAMED = ("kubernetes",)
DEFAULT = "slurm"  # where no scheduler is, or several are: scripts are written for it. A profile names another


def choose(name: str, environ: Mapping[str, str]) -> BatchScheduler:
    """Return the scheduler of this name. For any other name, such as `auto`, return the one whose job this process is
    in, else the one of this machine, else the default."""
    if name in BATCH:
        return BATCH[name]
    around = [name for name, scheduler in KNOWN.items() if scheduler.job(environ)]
    if len(around) > 1:
        around = [_innermost(around)]
    here = around or [name for name, one in KNOWN.items() if name not in NAMED and one.is_here(environ)]
    return BATCH[here[0] if len(here) == 1 else DEFAULT]


def _innermost(around: Sequence[str]) -> str:
    """Return the scheduler whose program is the nearest ancestor of this process. A job hands its variables on to the
    jobs that it submits, so the variables do not tell."""
    from mnrun.schedulers import parts

    above = (one for _, program in parts.ancestors() for one in around if program.startswith(KNOWN[one].ANCESTORS))
    return next(above, around[0])


__all__ = [
    "BATCH",
    "DEFAULT",
    "FRONTS",
    "KNOWN",
    "NAMED",
    "SCHEDULERS",
    "TEXTS",
    "BatchScheduler",
    "Front",
    "Known",
    "Scheduler",
    "choose",
]

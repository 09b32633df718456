"""Hold what this package alone wants to know of a site."""

from __future__ import annotations

from dataclasses import dataclass

from mnrun.model import Site
from mnrun.record import Record


class Details(Record):
    """Slurm's version, as (24, 11), and the options for srun that it gives Open MPI in a variable of that name."""

    version: tuple[int, int] = (0, 0)
    plm_slurm_args: str = ""


def details(site: Site) -> Details:
    """Return the details of a site of Slurm's."""
    return site.details if isinstance(site.details, Details) else Details()

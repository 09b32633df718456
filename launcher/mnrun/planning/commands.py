"""Complete a plan for one site, with the exact words that start there. Pure."""

from __future__ import annotations

from mnrun.model import Command, Plan, Site, Where
from mnrun.schedulers import SCHEDULERS


def carry(plan: Plan, site: Site) -> tuple[Command, ...]:
    """Return one command for each step that starts something, in the plan's order."""
    scheduler = SCHEDULERS[site.scheduler]
    return tuple(
        Command(step, (*scheduler.reach(step.where, plan, site), *step.argv))
        for step in plan.steps
        if step.where is not Where.HERE
    )

"""Complete a plan for one site, with the command of each step. Pure."""

from __future__ import annotations

from mnrun.model import Command, Phase, Plan, Site, Where
from mnrun.schedulers import SCHEDULERS


def carry(plan: Plan, site: Site) -> dict[Phase, Command]:
    """Return one command for each step that starts something, in the plan's order."""
    scheduler = SCHEDULERS[site.scheduler]
    return {step.phase: scheduler.command(step, plan, site) for step in plan.steps if step.where is not Where.HERE}

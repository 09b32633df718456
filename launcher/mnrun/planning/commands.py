"""Complete a plan for one site, with the command of each step. Pure."""

from __future__ import annotations

from mnrun.model import Command, JobHere, Phase, Plan, Site, Where
from mnrun.nodes import kit
from mnrun.schedulers import SCHEDULERS


def carry(plan: Plan, site: Site) -> dict[Phase, Command]:
    """Return one command for each step that starts something, in the plan's order."""
    scheduler = SCHEDULERS[site.scheduler]
    steps = (step._replace(argv=kit.of_scheduler(step.argv, scheduler.ON_NODE)) for step in plan.steps)
    return {step.phase: scheduler.command(step, plan, site) for step in steps if step.where is not Where.HERE}


def job_here(site: Site) -> JobHere:
    """Return the scheduler's job around a launch, as its nodes need it."""
    scheduler = SCHEDULERS[site.scheduler]
    value = site.job if scheduler.JOB_VARIABLE else ""
    return JobHere(scheduler.JOB_VARIABLE, value, scheduler.GROUP.format(job=site.job), scheduler.WARNINGS)

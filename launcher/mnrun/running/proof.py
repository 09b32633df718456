"""Tell where the ranks of a launch ran, and which network they used."""

from __future__ import annotations

from mnrun.jobs.job_dir import Records
from mnrun.model import Plan
from mnrun.nodes import transport
from mnrun.nodes.status import Roster
from mnrun.system.screen import Screen


def tell(plan: Plan, roster: Roster, records: Records, screen: Screen) -> None:
    """Record where ranks ran and which network they used, and show it if asked. Warn of a slow network."""
    spec = plan.spec
    planned = plan.layout.ntasks if plan.counted else 0
    text = transport.summary(roster.counts, roster.used, planned, spec.overhears)
    records.prove(text, roster.topologies)
    if roster.counts:
        (screen.detail if spec.start.require == "any" else screen.say)(text)
    if len(roster.counts) != 1 and (slow := transport.slow(roster.used)):
        screen.warn(slow)

"""Write the files that the nodes get with their go. They depend on what all nodes have reported."""

from __future__ import annotations

# The end of a launch needs these two. By then, another mnrun may have replaced this one on the disk.
import mnrun.diagnosis.culprit
import mnrun.diagnosis.recognise  # noqa: F401
from mnrun.connect import CONNECTS
from mnrun.jobs.job_dir import Records
from mnrun.model import Plan
from mnrun.network import choose, facts
from mnrun.nodes import place, sides
from mnrun.nodes.status import Roster
from mnrun.system.screen import Screen


def files(plan: Plan, roster: Roster, limits: bool, records: Records, screen: Screen) -> dict[str, str]:
    """Return name -> text of each file, and show the choices that are in them.

    `limits` says that a job has the resource limits of the shell that submitted it.
    """
    fabric, workers = _fabric(plan, roster, limits, records, screen), roster.in_order()
    found = {**sides.by_mpirun(plan, fabric), **sides.boxed({**fabric, **place.files(plan, workers[0])})}
    if plan.connect:
        peers = CONNECTS[plan.connect].files(plan.mpirun_dir, workers)
        found.update(sides.by_mpirun(plan, peers))
    return found


def _fabric(plan: Plan, roster: Roster, limits: bool, records: Records, screen: Screen) -> dict[str, str]:
    """Return the file with the ranks' networks and adapters, chosen by the facts that the nodes reported."""
    networks = facts.of_nodes(roster.facts)
    addresses = {name: worker.address for name, worker in roster.workers.items()}
    choices = choose.of_job(plan.spec, networks, addresses)
    for line in choose.reasons(choices):
        screen.detail(line)
    for line in choose.warnings(plan.spec, networks, limits):
        screen.warn(line)
    records.fabric(choose.reasons(choices))
    return {"fabric.env": choose.shell(choices)} if choices else {}

"""Write the files that the nodes get with their go. They depend on what all nodes have reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

# The end of a launch needs these. By then, another mnrun may have replaced this one on the disk.
import mnrun.diagnosis.culprit
import mnrun.diagnosis.recognise
import mnrun.jobs.timeline  # noqa: F401
from mnrun import connect
from mnrun.jobs.job_dir import Records
from mnrun.model import Plan
from mnrun.network import choose, facts
from mnrun.nodes import sides
from mnrun.nodes.status import Roster
from mnrun.system.screen import Screen

if TYPE_CHECKING:
    from mnrun.services.serving import Serving


def files(
    plan: Plan, roster: Roster, limits: str, records: Records, screen: Screen, serving: Serving | None = None
) -> dict[str, str]:
    """Return name -> text of each file, and show the choices in them. `limits` says how an admin raises those of
    jobs. `serving` is the service of the launch."""
    fabric, workers = _fabric(plan, roster, limits, records, screen), roster.in_order()
    found = {**sides.by_mpirun(plan, fabric), **sides.boxed({**fabric, **sides.master(plan, workers[0])})}
    if plan.connect:
        peers = connect.files(plan.connect, plan.mpirun_dir, workers)
        found.update(sides.by_mpirun(plan, peers))
    if serving is not None:
        from mnrun.services.serving import files as files_of

        found.update(files_of(serving, plan, workers))
    return found


def _fabric(plan: Plan, roster: Roster, limits: str, records: Records, screen: Screen) -> dict[str, str]:
    networks = facts.of_nodes(roster.facts)
    addresses = {name: worker.address for name, worker in roster.workers.items()}
    choices = choose.of_job(plan.spec, networks, addresses)
    for line in choose.reasons(choices):
        screen.detail(line)
    for line in choose.warnings(plan.spec, networks, limits):
        screen.warn(line)
    records.note("fabric", "".join(f"{line}\n" for line in choose.reasons(choices)))
    return {"fabric.env": choose.shell(choices)} if choices else {}

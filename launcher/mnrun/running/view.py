"""Look at a job for `mnrun plan` and `mnrun check`: its plan, and what would be wrong with it. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mnrun.model import Allocation, Fault, Plan, Site
from mnrun.planning import layout, needs
from mnrun.planning.show import Judgement
from mnrun.running import nodes, outputs, probe, session
from mnrun.running.request import Request
from mnrun.schedulers import BATCH
from mnrun.system import paths
from mnrun.system.screen import Screen


@dataclass(frozen=True)
class View:
    """A plan for `mnrun plan` to show, with its site and the facts that a node reported."""

    plan: Plan
    site: Site
    judgement: Judgement


def look(request: Request) -> View:
    """Return the plan of a run. Raises LaunchError."""
    spec = request.spec
    outputs.refuse_parts(outputs.live_files(spec))
    with nodes.held(request, Screen(quiet=True), look=True) as held:
        allocation, site = held.allocation, held.site
        spec = held.spec if allocation else layout.share_gpus(held.spec)
        ranks = layout.lay_out(spec, allocation)
        node_probe = probe.Probe(held._replace(spec=spec), ranks.nodes)
        spec, verdict = probe.resolve(node_probe, look=True)
        networks = node_probe.networks()
    plan = session.make(spec, ranks, site, allocation)
    if allocation is None:
        plan = plan._replace(notes=(*plan.notes, _of_no_nodes(request)))
        site = BATCH[site.scheduler].with_gpus(site, plan.spec, plan.layout)
    faults = _faults(request._replace(spec=plan.spec), site, allocation)
    if verdict and verdict.chosen.judged:
        faults = [fault for fault in faults if fault.code != "image"]  # a node has it, and has answered
    return View(plan, site, Judgement(verdict, node_probe.origin, plan.spec, networks, faults))


def _of_no_nodes(request: Request) -> str:
    if nodes.allocates(request) and not nodes.asking(request):
        return f"no nodes here: run submits the job to {request.scheduler.TITLE}, and follows it"
    if nodes.allocates(request):
        return f"no allocation here: run gets one with {nodes.asking(request)}"
    return "no allocation here, and --no-alloc: run refuses"


def _faults(request: Request, site: Site, allocation: Allocation | None) -> list[Fault]:
    spec, environ = request.spec, request.environ
    found = [] if spec.hosts.names else needs.faults(spec, paths.fault, site.scheduler == "local")
    if allocation is None:
        queue = request.scheduler.user_queue(environ, Path.home(), float(spec.poll))
        found += request.scheduler.doubts(spec, queue.nodes, environ)
    return found

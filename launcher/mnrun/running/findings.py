"""Find what the nodes of a job have and lack, or this machine, and whether an image fits them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mnrun.config import load
from mnrun.facts import parse
from mnrun.files import BASH
from mnrun.nodes import kit, survey
from mnrun.nodes.survey import Finding, NodeSurvey, node_survey
from mnrun.planning import layout
from mnrun.record import Record
from mnrun.running import following, request
from mnrun.running import nodes as where
from mnrun.running.request import Request
from mnrun.running.view import View, look
from mnrun.schedulers import SCHEDULERS
from mnrun.system import process
from mnrun.system.screen import Screen

# The settings of an allocation, of the ways to start ranks on its nodes, and of hosts.
_OF_ALLOCATIONS = (*where.OF_ALLOCATIONS, "alloc", "exclude", "gres", "gpus_per_node")
_OF_STARTS = ("mode", "launcher", "mpi")
_OF_HOSTS = ("hosts", "hostfile", "ssh_user", "ssh_port", "rsh", "local")


class Checked(Record):
    """The findings, the view of a job in the image if there is one, and whether only the login node was asked."""

    rows: list[Finding]
    view: View | None
    login: bool


def check(options: Mapping[str, object], wanted: bool) -> Checked:
    """Return what was found. An allocation is got first if one is `wanted` and there is none. Raises LaunchError."""
    # Without an image, no runtime is chosen: all of them are shown.
    own = {} if options["image"] else {"runtime": "host"}
    starts = () if options["local"] else _OF_STARTS
    names = (*load.OF_IMAGES, *_OF_HOSTS, *(starts if wanted else ()))
    scope = load.Scope(names, own, with_nodes=starts, without_nodes=_OF_ALLOCATIONS if wanted else ())
    asked = request.read(("check",), options, live=True, scope=scope)
    with _held(asked, wanted) as held:
        about = (held.scheduler.STARTER, held.scheduler.LIMITS)
        rows = [row for node, answer in _surveys(held).items() for row in survey.findings(node, answer, *about)]
        login = where.could_be_allocated(held)
        rows = [row for row in rows if not (login and row.subject == survey.OTHERS)]
        return Checked(rows, look(held) if options["image"] else None, login)


@contextmanager
def _held(asked: Request, wanted: bool) -> Iterator[Request]:
    if not wanted or not where.could_be_allocated(asked):
        yield asked
        return
    if not where.allocates(asked):
        where.current(asked)  # raises the refusal
    if not where.asking(asked):
        raise SystemExit(following.again(asked))
    with where.allocated(asked, Screen()) as granted:
        yield asked.granted(granted.variables)


def _surveys(asked: Request) -> dict[str, NodeSurvey]:
    """Return node -> its survey. On a login node, that is this machine."""
    spec = asked.spec
    if spec.hosts.local or not (asked.in_job or spec.hosts.names):
        answer = process.ask((*BASH, "-c", kit.probe("survey.sh", asked.scheduler.PROBE)))
        return {os.uname().nodename: node_survey(parse(answer))}
    with where.held(asked, Screen()) as held:
        names, there = layout.lay_out(held.spec, held.allocation).nodes, SCHEDULERS[held.site.scheduler]
        facts = held.ask(names, (*BASH, "-c", kit.probe("survey.sh", there.ON_NODE + there.PROBE)))
        return {name: node_survey(facts[name]) for name in names}

"""`mnrun check`: survey this machine, or every node of a job, for the programs that jobs in containers need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

from mnrun import nodeset
from mnrun.cli.check import REQUEST
from mnrun.cli.parsing import print_json
from mnrun.config import load
from mnrun.errors import Impossible, UsageError
from mnrun.facts import by_node, parse
from mnrun.files import BASH
from mnrun.jobspec import JobSpec
from mnrun.nodes import kit, survey
from mnrun.nodes.survey import NO, OK, PART, Finding, Findings, NodeSurvey, node_survey
from mnrun.planning import layout
from mnrun.running import nodes as where
from mnrun.running import session
from mnrun.schedulers import at_hand
from mnrun.system import process, screen
from mnrun.system.screen import Screen


def check(as_json: bool, **options: object) -> None:
    """Show the runtimes, GPUs and MPIs of nodes, what is missing, and how to get it."""
    if options["runtime"] and not options["image"]:
        problem = f"--runtime {options['runtime']} has no effect without an image"
        raise UsageError(problem, "name one with --image REF, or leave it out: check shows every runtime")
    wanted = any(options[name] for name in REQUEST)
    # Without an image, no runtime is chosen: all of them are shown.
    scope = load.Scope(_counting(options, wanted), {} if options["image"] else {"runtime": "host"})
    spec = session.spec_of(("check",), dict(options), live=True, scope=scope)
    with _held(spec, wanted):
        rows = [row for node, answer in _surveys(spec).items() for row in survey.findings(node, answer)]
        view = session.look(("check",), dict(options), scope, again=True) if options["image"] else None
        _show(rows, view, as_json)
        _refuse(rows, view, login=where.could_be_allocated(spec))


# The settings of an allocation, and those of the ways to start ranks on its nodes.
_OF_ALLOCATIONS = (*where.OF_ALLOCATIONS, "alloc", "exclude", "gres", "gpus_per_node")
_OF_STARTS = ("mode", "launcher", "mpi")


def _counting(options: Mapping[str, object], wanted: bool) -> tuple[str, ...]:
    """Return the names of the settings that count: an allocation's if one is `wanted`, and the start's on its nodes."""
    held = where.in_job()
    return (
        *load.OF_IMAGES,
        *("hosts", "hostfile", "ssh_user", "ssh_port", "rsh", "local"),
        *(_OF_STARTS if (wanted or held) and not options["local"] else ()),
        *(_OF_ALLOCATIONS if wanted and not held else ()),
    )


@contextmanager
def _held(spec: JobSpec, wanted: bool) -> Iterator[None]:
    """Hold an allocation if one is wanted and there is none."""
    if not wanted or not where.could_be_allocated(spec):
        yield
        return
    if not where.allocates(spec):
        where.current(spec)  # raises the refusal
    with where.allocated(spec, Screen()) as granted:
        os.environ.update(granted.variables)
        yield


def _show(rows: list[Finding], view: session.View | None, as_json: bool) -> None:
    if as_json:
        print_json(Findings((*rows, *_of_image(view))))
        return
    screen.table(("SUBJECT", "", "NODES", "FOUND", "TO DO"), _rows(rows))
    for line in _verdict(view):
        click.echo(line)


def _verdict(view: session.View | None) -> list[str]:
    return [line.rstrip() for line in view.judgement.lines if line.strip()] if view else []


def _of_image(view: session.View | None) -> list[Finding]:
    """Return the verdict on the image as a finding about no single node."""
    if view is None:
        return []
    verdict = view.judgement.verdict
    state = PART if verdict is None else OK if verdict.chosen.works else NO
    return [Finding("", "image", state, "; ".join(map(str.strip, _verdict(view))))]


def _refuse(rows: list[Finding], view: session.View | None, login: bool) -> None:
    """Raise Impossible if no job could run. Say where to ask if only the login node was asked."""
    sys.stdout.flush()
    elsewhere = "ask the nodes: salloc -N 2 mnrun check"
    if not survey.usable(rows):
        problem = "no container runtime works on "
        if login:
            raise Impossible(f"{problem}this machine, and this is the login node only", elsewhere)
        raise Impossible(f"{problem}all of these nodes", "--runtime host runs without one")
    if view and view.judgement.verdict and not view.judgement.verdict.chosen.works:
        raise Impossible("this image does not fit these nodes", "the verdict above says why, and what works")
    if login:
        Screen().say(f"this is the login node only; {elsewhere}")


def _surveys(spec: JobSpec) -> dict[str, NodeSurvey]:
    """Return node -> its survey. Raises LaunchError if a node does not answer."""
    words = (*BASH, "-c", kit.survey())
    if spec.hosts.names:
        from mnrun.running import hosts

        with where.connected(spec, Screen()) as connection:
            answers = connection.transport.ask(words, seconds=process.PROBE)
            hosts.refuse_silent(answers)
            return {node: node_survey(parse(answer.out)) for node, answer in answers.items()}
    if where.in_job() and not spec.hosts.local:
        scheduler = at_hand(os.environ)
        allocation, _ = scheduler.current(os.environ)
        names = layout.lay_out(spec, allocation).nodes
        facts = by_node(parse(scheduler.on_each(allocation, names, words, os.environ)))
        return {name: node_survey(facts[name]) for name in names}
    return {os.uname().nodename: node_survey(parse(process.ask(words)))}


def _rows(findings: list[Finding]) -> list[tuple[str, ...]]:
    """Return the rows of the table, with nodes of equal findings in one row."""
    nodes: dict[tuple[str, ...], list[str]] = {}
    for row in findings:
        nodes.setdefault((row.subject, row.state, row.found, row.fix), []).append(row.node)
    order = {row.subject: place for place, row in reversed(list(enumerate(findings)))}
    return [
        (subject, {OK: "ok", NO: "-"}.get(state, "!"), nodeset.fold(names), finding, fix)
        for (subject, state, finding, fix), names in sorted(nodes.items(), key=lambda item: order[item[0][0]])
    ]

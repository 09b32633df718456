"""`mnrun check`: survey this machine, or every node of a job, for the programs that jobs in containers need."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Any

import click

from mnrun import nodeset
from mnrun.cli.parsing import json_option
from mnrun.config.options import BY_NAME
from mnrun.errors import Impossible
from mnrun.facts import by_node, parse
from mnrun.jobspec import JobSpec
from mnrun.nodes import kit, survey
from mnrun.nodes.survey import NO, OK, Finding, NodeSurvey, node_survey
from mnrun.planning import layout
from mnrun.running import nodes as where
from mnrun.running import session
from mnrun.schedulers import at_hand
from mnrun.system import process, screen
from mnrun.system.screen import Screen

OPTIONS = ("nodes", "nodelist", "exclude", "hosts", "hostfile", "ssh_user", "ssh_port", "local")


def _options(verb: Any) -> Any:
    for name in reversed(OPTIONS):
        option = BY_NAME[name]
        rest: dict[str, Any] = (
            {"is_flag": True, "default": None} if option.kind == "flag" else {"metavar": option.metavar}
        )
        verb = click.option(*option.flags, name, help=option.help, **rest)(verb)
    return verb


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@_options
@json_option
def check(as_json: bool, **options: object) -> None:
    """Show the runtimes, GPUs and MPIs of nodes, what is missing, and how to get it.

    The nodes are those of the Slurm job that you are in, of --hosts, or else this machine.
    The exit code is 122 if no runtime works on all of them.
    """
    spec = session.spec_of(("check",), {**options, "runtime": "host"}, live=True)
    findings = [row for node, answer in _surveys(spec).items() for row in survey.findings(node, answer)]
    if as_json:
        click.echo(json.dumps([asdict(row) for row in findings], indent=2))
    else:
        screen.table(("SUBJECT", "", "NODES", "FOUND", "TO DO"), _rows(findings))
    if not survey.usable(findings):
        sys.stdout.flush()
        raise Impossible("no container runtime works on all of these nodes", "--runtime host runs without one")


def _surveys(spec: JobSpec) -> dict[str, NodeSurvey]:
    """Return node -> its survey. Raises LaunchError if a node does not answer."""
    words = ("bash", "-p", "-c", kit.survey())
    if spec.hosts.names:
        from mnrun.running import hosts

        with where.connected(spec, Screen()) as session:
            answers = session.transport.ask(words)
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

"""`mnrun check`: survey this machine, or every node of a job, for the programs that jobs in containers need."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Any

import click

from mnrun import nodeset
from mnrun.config.options import BY_NAME
from mnrun.errors import Impossible
from mnrun.model import JobSpec
from mnrun.nodes import kit, survey
from mnrun.nodes.survey import NO, OK, Finding
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
@click.option("--json", "as_json", is_flag=True, help="In JSON, for programs.")
def check(as_json: bool, **given: object) -> None:
    """Show which runtimes, GPUs and MPIs there are, what is missing, and how to get it.

    On every node of the Slurm job that you are in, of --hosts, or else on this machine.
    Leaves with 122 where no runtime works on all of them.
    """
    job = session.spec_of(("check",), {**given, "runtime": "host"}, live=True)
    findings = [one for node, facts in _survey(job).items() for one in survey.findings(node, facts)]
    if as_json:
        click.echo(json.dumps([asdict(one) for one in findings], indent=2))
    else:
        screen.table(("SUBJECT", "", "NODES", "FOUND", "TO DO"), _rows(findings))
    if not survey.usable(findings):
        sys.stdout.flush()
        raise Impossible("no container runtime works on all of these nodes", "--runtime host runs without one")


def _survey(job: JobSpec) -> dict[str, survey.Facts]:
    """Return node -> its facts. Raises LaunchError if a node does not answer."""
    words = ("bash", "-p", "-c", kit.survey())
    if job.hosts:
        from mnrun.running import hosts

        with where.reached(job, Screen()) as reached:
            answers = reached.way.ask(words)
            hosts.refuse_silent(answers)
            return {node: _only(answer.out) for node, answer in answers.items()}
    if where.in_job() and not job.local:
        scheduler = at_hand(os.environ)
        allocation, _ = scheduler.current(os.environ)
        names = layout.lay_out(job, allocation).nodes
        facts = survey.facts(scheduler.on_each(allocation, names, words, os.environ))
        return {name: facts[name] for name in names}
    return {os.uname().nodename: _only(process.ask(words))}


def _only(text: str) -> survey.Facts:
    """Return the facts of the only node that answered, under any name."""
    return next(iter(survey.facts(text).values()), {})


def _rows(findings: list[Finding]) -> list[tuple[str, ...]]:
    """Return the rows of the table, with nodes of equal findings in one row."""
    nodes: dict[tuple[str, ...], list[str]] = {}
    for one in findings:
        nodes.setdefault((one.subject, one.state, one.found, one.fix), []).append(one.node)
    order = {one.subject: place for place, one in reversed(list(enumerate(findings)))}
    return [
        (subject, {OK: "ok", NO: "-"}.get(state, "!"), nodeset.fold(names), what, fix)
        for (subject, state, what, fix), names in sorted(nodes.items(), key=lambda item: order[item[0][0]])
    ]

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
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def check(as_json: bool, **given: object) -> None:
    """Show the runtimes, GPUs and MPIs of nodes, what is missing, and how to get it.

    The nodes are those of the Slurm job that you are in, of --hosts, or else this machine.
    The exit code is 122 if no runtime works on all of them.
    """
    job = session.spec_of(("check",), {**given, "runtime": "host"}, live=True)
    found = [one for node, facts in _asked(job).items() for one in survey.findings(node, facts)]
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
    else:
        screen.table(("SUBJECT", "", "NODES", "FOUND", "TO DO"), _rows(found))
    if not survey.usable(found):
        sys.stdout.flush()
        raise Impossible("no container runtime works on all of these nodes", "--runtime host runs without one")


def _asked(job: JobSpec) -> dict[str, survey.Facts]:
    """Return node -> its facts. Raises LaunchError if a node does not answer."""
    words = ("bash", "-p", "-c", kit.survey())
    if job.hosts:
        from mnrun.running import hosts

        with where.reached(job, Screen()) as held:
            answers = held.way.ask(words)
            hosts.refuse_silent(answers)
            return {node: _only(answer.out) for node, answer in answers.items()}
    if "SLURM_JOB_ID" in os.environ and not job.local:
        from mnrun.schedulers.slurm import cluster

        allocation, _ = cluster.current(os.environ)
        names = layout.lay_out(job, allocation).nodes
        said = survey.facts(cluster.on_each(allocation, names, words, os.environ))
        return {name: said[name] for name in names}
    return {os.uname().nodename: _only(process.ask(words))}


def _only(said: str) -> survey.Facts:
    """Return the facts of the only node that answered, under any name."""
    return next(iter(survey.facts(said).values()), {})


def _rows(found: list[Finding]) -> list[tuple[str, ...]]:
    """Return the rows of the table, with nodes of equal findings in one row."""
    nodes: dict[tuple[str, ...], list[str]] = {}
    for one in found:
        nodes.setdefault((one.subject, one.state, one.found, one.fix), []).append(one.node)
    order = {one.subject: place for place, one in reversed(list(enumerate(found)))}
    return [
        (subject, {OK: "ok", NO: "-"}.get(state, "!"), nodeset.fold(names), what, fix)
        for (subject, state, what, fix), names in sorted(nodes.items(), key=lambda item: order[item[0][0]])
    ]
